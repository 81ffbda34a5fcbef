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
        revision: Pinned commit of the hub's repository.
        config: Configuration name on the hub; empty for the only one.
        image_column, label_column: Column names of the hub's parquet.
        train_split, test_split: Split names on the hub.
        classes: Number of classes.
        train_images, test_images: Numbers of images.
        channels, size: Shape of the decoded images, (channels, size, size).
        bundled: Folder under `roarbench/datasets/bundled` that carries it; empty if it is fetched.
        gated: The hub asks for an accepted licence and a token.
        terms: Under what terms it may be used.
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
