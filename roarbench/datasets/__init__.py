"""What is known of a data set before it is read. Nothing here imports torch.

A table of numbers is a set of images of one pixel: its columns are the channels (docs/data.md).
"""

from dataclasses import dataclass, replace
from functools import partial

from roarbench.enums import Split


@dataclass(frozen=True)
class DatasetRecord:
    """One data set."""

    name: str
    about: str
    hub: str  # path on the Hugging Face hub; empty for generated data
    revision: str  # pinned commit of the hub's repository; for generated data the version of its recipe
    config: str  # configuration name on the hub, or which kind of generated data; empty for the only or the plain one
    image_column: str  # image_column, label_column: column names of the hub's parquet
    label_column: str
    train_split: str  # train_split, test_split: split names on the hub
    test_split: str
    classes: int
    train_images: int
    test_images: int
    channels: int  # channels, size: shape of the decoded images, (channels, size, size)
    size: int
    # folder under `roarbench/datasets/bundled` that carries it, or more images than are taken: of each class the first,
    # as evenly as they allow, `train_images` and `test_images` in all; empty if it is fetched
    bundled: str = ""
    gated: bool = False  # the hub asks for an accepted licence and a token
    terms: str = ""  # under what terms it may be used
    crop: float = 1.0  # side of the centred square that is kept, as a share of the image's short side
    seed: int = 0  # seed of generated data, and of the draw of test images (`holdout`)
    holdout: int = 0  # test images of each class, drawn from the hub's only split; 0 where the hub has a test split
    # every so many classes of the hub's one is kept, numbered anew; of each class the first images, as evenly as they
    # allow, `train_images` and `test_images` in all
    class_step: int = 1
    # at most the first so many images of each class and split are kept, `train_images` and `test_images` in all, and no
    # file is read or fetched beyond the one that has the last of them; 0 for all images
    of_each: int = 0
    # how the images are stored that a suite's file names: `FOLDERS`, `PARQUET` or `TABLE`; empty for those of the table
    own: str = ""
    # share of each class of the only split that is drawn for testing (`seed`), one image at least; 0 where there is a
    # test split
    share: float = 0.0
    folder: str = ""  # where such images lie on this machine, of a table its file; no part of what identifies them
    # bits that values use, from 8 on, where they are stored with more; 0 for 16
    depth: int = 0
    columns: tuple[str, ...] = ()  # of a table, those that are features, in order; all but the label's if empty
    # labels, or names of folders, are the numbers of a network's outputs, of which some may have no image
    numbered: bool = False
    # pixels that the short side is scaled to, by this filter of Pillow's, before the centred square is cut out; 0 where
    # the square is cut out first and scaled then
    resize: int = 0
    interpolation: str = ""
    mean: tuple[float, ...] = ()  # mean, std: that networks want, in [0, 255]; those of the training images if empty
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("columns", "mean", "std"):  # JSON, from which records are read back, has lists
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def tabular(self) -> bool:
        """Return whether its images are rows of a table, of one pixel with a channel for each column."""
        return self.size == 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width of its images."""
        return self.channels, self.size, self.size

    @property
    def images(self) -> dict[Split, int]:
        """Return how many images its splits have."""
        return {Split.TRAIN: self.train_images, Split.TEST: self.test_images}

    @property
    def split_names(self) -> dict[Split, str]:
        """Return what its splits are called where they are stored."""
        return {Split.TRAIN: self.train_split, Split.TEST: self.test_split}

    @property
    def generated(self) -> bool:
        """Return whether its images are computed, not read."""
        return not (self.hub or self.own or self.tabular)

    @property
    def test_only(self) -> bool:
        """Return whether no image is to train on: the test images stand in where others would be read."""
        return bool(self.own or self.hub) and self.train_split == self.test_split and not (self.share or self.holdout)

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


def make_own_record(name: str, channels: int, size: int) -> DatasetRecord:
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
