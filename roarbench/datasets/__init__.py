"""What is known of a data set before it is read. Nothing here imports torch.

A table of numbers is a set of images of one pixel: its columns are the channels (docs/data.md).
"""

from dataclasses import dataclass, replace
from functools import partial


@dataclass(frozen=True)
class DatasetRecord:
    """One data set.

    Attributes:
        hub: Path on the Hugging Face hub; empty for generated data.
        revision: Pinned commit of the hub's repository; for generated data the version of its recipe.
        config: Configuration name on the hub, or which kind of generated data; empty for the only or the plain one.
        image_column, label_column: Column names of the hub's parquet.
        train_split, test_split: Split names on the hub.
        channels, size: Shape of the decoded images, (channels, size, size).
        bundled: Folder under `roarbench/datasets/bundled` that carries it, or more images than are taken: of each class
            the first, as evenly as they allow, `train_images` and `test_images` in all; empty if it is fetched.
        gated: The hub asks for an accepted licence and a token.
        terms: Under what terms it may be used.
        crop: Side of the centred square that is kept, as a share of the image's short side.
        seed: Seed of generated data, and of the draw of test images (`holdout`).
        holdout: Test images of each class, drawn from the hub's only split; 0 where the hub has a test split.
        class_step: Every so many classes of the hub's one is kept, numbered anew; of each class the first images, as
            evenly as they allow, `train_images` and `test_images` in all.
        of_each: The first so many images of each class and split are kept, and no file is read or fetched beyond the
            one that has the last of them; 0 for all images.
        own: How the images are stored that a suite's file names: `FOLDERS`, `PARQUET` or `TABLE`; empty for those of
            the table.
        share: Share of each class of the only split that is drawn for testing (`seed`), one image at least; 0 where
            there is a test split.
        folder: Where such images lie on this machine, of a table its file; no part of what identifies them.
        columns: Of a table, those that are features, in order; all but the label's if empty.
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
    holdout: int = 0
    class_step: int = 1
    of_each: int = 0
    own: str = ""
    share: float = 0.0
    folder: str = ""
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))  # JSON, from which records are read back, has lists

    @property
    def tabular(self) -> bool:
        """Return whether its images are rows of a table, of one pixel with a channel for each column."""
        return self.size == 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width of its images."""
        return self.channels, self.size, self.size

    @property
    def generated(self) -> bool:
        """Return whether its images are computed, not read."""
        return not (self.hub or self.own or self.tabular)

    @property
    def anywhere(self) -> "DatasetRecord":
        """Return the same wherever it lies."""
        return replace(self, folder="")


# values of `own`: a folder of each class, parquet files in the hub's layout, one file of numbers with a label column
FOLDERS, PARQUET, TABLE = "folders", "parquet", "table"
OWN_IMAGES = "somebody's own images"


unfetched = partial(  # a record of what no hub has
    DatasetRecord, hub="", revision="", config="", image_column="", label_column="", train_split="", test_split=""
)


def own_images(name: str, channels: int, size: int) -> DatasetRecord:
    """Return the record of somebody's own images of this shape, of which nothing else is known yet."""
    return unfetched(
        name=name,
        about=OWN_IMAGES,
        classes=0,
        train_images=0,
        test_images=0,
        channels=channels,
        size=size,
        terms="one's own",
    )
