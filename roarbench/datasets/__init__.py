"""The table of data sets: where each comes from and what it holds. Nothing here imports torch."""

from dataclasses import dataclass

from roarbench.errors import UnknownName


@dataclass(frozen=True)
class DatasetRecord:
    """One data set.

    Attributes:
        name: What suites call it.
        about: One sentence.
        hub: Path on the Hugging Face hub; empty for generated data.
        revision: Pinned commit of the hub's repository; for generated data the version of its recipe.
        config: Configuration name on the hub; empty for the only one.
        image_column, label_column: Column names of the hub's parquet.
        train_split, test_split: Split names on the hub.
        classes: Number of classes.
        train_images, test_images: Numbers of images.
        channels, size: Shape of the decoded images, (channels, size, size).
        bundled: Folder under `roarbench/datasets/bundled` that carries it; empty if it is fetched.
        gated: The hub asks for an accepted licence and a token.
        terms: Under what terms it may be used.
        crop: Side of the centred square that is kept, as a share of the image's short side.
        seed: Seed of generated data.
    """

    name: str
    about: str
    hub: str
    revision: str
    config: str
    image_column: str
    label_column: str
    train_split: str
    test_split: str
    classes: int
    train_images: int
    test_images: int
    channels: int
    size: int
    bundled: str = ""
    gated: bool = False
    terms: str = ""
    crop: float = 1.0
    seed: int = 0


_TABLE = (
    DatasetRecord(
        name="imagenette64",
        about="ten easily told classes of ImageNet, photographs at 64 x 64; comes with the package",
        hub="frgfm/imagenette",
        revision="4b23ffb92a8029db9958bdfdbd6978427d09b1a0",
        config="160px",
        image_column="image",
        label_column="label",
        train_split="train",
        test_split="validation",
        classes=10,
        train_images=9469,
        test_images=3925,
        channels=3,
        size=64,
        bundled="imagenette64",
        terms="Apache 2.0 (fast.ai); the photographs belong to their owners and are for research",
    ),
    DatasetRecord(
        name="cifar10",
        about="ten classes of small photographs (Krizhevsky 2009)",
        hub="uoft-cs/cifar10",
        revision="0b2714987fa478483af9968de7c934580d0bb9a2",
        config="plain_text",
        image_column="img",
        label_column="label",
        train_split="train",
        test_split="test",
        classes=10,
        train_images=50_000,
        test_images=10_000,
        channels=3,
        size=32,
        terms="no licence stated; for research",
    ),
    DatasetRecord(
        name="fashion-mnist",
        about="ten classes of clothes in grey (Xiao et al. 2017)",
        hub="zalando-datasets/fashion_mnist",
        revision="531be5e2ccc9dba0c201ad3ae567a4f3d16ecdd2",
        config="fashion_mnist",
        image_column="image",
        label_column="label",
        train_split="train",
        test_split="test",
        classes=10,
        train_images=60_000,
        test_images=10_000,
        channels=1,
        size=28,
        terms="MIT (Zalando SE)",
    ),
    DatasetRecord(
        name="planted",
        about="generated stripes whose true feature ranking is known for every image (docs/planted.md)",
        hub="",
        revision="1",
        config="",
        image_column="",
        label_column="",
        train_split="train",
        test_split="test",
        classes=4,
        train_images=1000,
        test_images=2000,
        channels=3,
        size=16,
        terms="generated; no terms",
        seed=0,
    ),
)
DATASETS = {record.name: record for record in _TABLE}


def find_dataset(name: str) -> DatasetRecord:
    """The record of the data set of this name.

    Raises:
        UnknownName: There is none.
    """
    if name not in DATASETS:
        raise UnknownName("data set", name, DATASETS)
    return DATASETS[name]
