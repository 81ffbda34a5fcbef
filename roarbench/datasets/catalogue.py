"""Catalogue of the data sets that a suite can name, with their metadata. Nothing here imports torch.

Tabular data are stored as 1 x 1 images with one channel per column (docs/data.md).
"""

from dataclasses import dataclass, replace
from functools import partial

from roarbench.common.enums import Split
from roarbench.common.errors import UnknownName

_USUAL_CROP = 224 / 256  # ImageNet's usual crop: resize the short side to 256 and cut out the centre of 224
_BREAST_CANCER_MEASURES = (
    "radius texture perimeter area smoothness compactness concavity concave_points symmetry fractal_dimension"
)
PINNED_FINGERPRINTS = {  # fingerprints of complete data sets, so that they are known before a download
    "imagenette64": "309f7c887090ddd734675b15f70612ea",
    "imagenette64-1000": "ce869d5951260dc221e3f5ed6748bc6e",
    "fashion-mnist": "0a8c2e4ac059440d5e6f98299d405047",  # the authors' IDX files in Debian's dataset-fashion-mnist
    "fashion-mnist-1000": "8153d1063e9819c54f6e31a6ac1f8c87",
    "planted": "268bf89edb78139910d041b0be188cde",
    "breast-cancer": "c8358f45cc3bf33475859d0a663b954b",
    "breast-cancer-10": "0988630a6917939ee9118f60c6c46e1e",
}


@dataclass(frozen=True)
class DatasetRecord:
    """Metadata of a data set."""

    name: str
    about: str
    hub: str  # OWNER/NAME on the Hugging Face hub; empty for data that are not on the hub
    revision: str  # pinned commit of the hub's repository, or version of the recipe of generated data
    # configuration on the hub, empty if there is only one; or kind of generated data, empty for `planted`
    config: str
    image_column: str  # image_column, label_column: column names in the hub's parquet files
    label_column: str
    train_split: str  # train_split, test_split: split names on the hub
    test_split: str
    classes: int
    train_images: int
    test_images: int
    channels: int  # channels, size: shape of the decoded images, (channels, size, size)
    size: int
    # folder under `roarbench/datasets/bundled`; the splits are the first images of each class, as balanced as possible
    bundled: str = ""
    gated: bool = False  # the hub asks for an accepted licence and a token
    terms: str = ""  # licence or terms of use
    crop: float = 1.0  # side of the centred square that is kept, as a share of the image's short side
    seed: int = 0  # seed of generated data, and of the draw of test images (`holdout`, `share`)
    holdout: int = 0  # number of test images per class drawn from the hub's only split; 0 if the hub has a test split
    # if above 1, only the first images of every n-th class of the hub are kept, and the kept classes are renumbered
    class_step: int = 1
    # if above 0, only the first images of each class are kept, and files are read until each class has this many
    of_each: int = 0
    # storage of a user's images: `FOLDERS`, `PARQUET` or `TABLE`; empty for data sets of the catalogue
    own: str = ""
    share: float = 0.0  # share of each class that is drawn from the only split for testing; 0 if there is a test split
    folder: str = ""  # folder of a user's images on this machine, or file of a table; not part of the identity
    depth: int = 0  # number of bits that values stored with 16 bits use, at least 8; 0 means 16
    columns: tuple[str, ...] = ()  # feature columns of a table, in order; empty for all columns except the label
    numbered: bool = False  # labels are numbers of a network's outputs, some of which may have no image
    # pixels of the short side to which the filter `interpolation` scales an image before the crop; 0: crop, then scale
    resize: int = 0
    interpolation: str = ""
    mean: tuple[float, ...] = ()  # mean, std: a given network's normalisation in [0, 255]; empty for that of the images
    std: tuple[float, ...] = ()
    # values of more than 8 bits, floats or negative numbers that become 0 and 255; empty: the upper 8 of `depth` bits
    window: tuple[float, ...] = ()
    # level of the folders that name classes, below the splits' folders; WHOLE_PATH: the path of an image's folder
    class_depth: int = 1
    # files of labels, relative to `folder`; with `*` for any name. `path_column`, `label_column` and `split_column` are
    # empty if the usual columns are meant
    label_files: tuple[str, ...] = ()
    path_column: str = ""
    split_column: str = ""
    left_out: tuple[str, ...] = ()  # names or patterns of folders and files that are no images of the data set

    def __post_init__(self) -> None:
        # a record from JSON has lists instead of tuples
        for name in ("columns", "mean", "std", "label_files", "left_out", "window"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def tabular(self) -> bool:
        """Return whether each image is a row of a table, stored as one pixel with a channel per column."""
        return self.size == 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width of the images."""
        return self.channels, self.size, self.size

    @property
    def image_counts(self) -> dict[Split, int]:
        return {Split.TRAIN: self.train_images, Split.TEST: self.test_images}

    @property
    def split_names(self) -> dict[Split, str]:
        return {Split.TRAIN: self.train_split, Split.TEST: self.test_split}

    @property
    def generated(self) -> bool:
        return not (self.hub or self.own or self.tabular)

    @property
    def test_only(self) -> bool:
        """Return whether the data set has only test images, which are then used for training, too."""
        return bool(self.own or self.hub) and self.train_split == self.test_split and not (self.share or self.holdout)

    @property
    def decoded_splits(self) -> tuple[Split, ...]:
        """Return the splits that are decoded; a data set with only test images has the training images as a link."""
        return (Split.TEST,) if self.test_only else (Split.TRAIN, Split.TEST)

    @property
    def without_location(self) -> "DatasetRecord":
        return replace(self, folder="")


# values of `own`: a folder per class, parquet files in the hub's layout, or a table with a label column
FOLDERS, PARQUET, TABLE = "folders", "parquet", "table"
WHOLE_PATH = 0  # value of `class_depth`
OWN_IMAGES = "somebody's own images"
make_record_without_hub = partial(  # record of a data set outside the hub
    DatasetRecord, hub="", revision="", config="", image_column="", label_column="", train_split="", test_split=""
)


def make_user_dataset_record(name: str, channels: int, size: int) -> DatasetRecord:
    """Make a record for a user's images of this shape, without classes and counts of images."""
    make_record = partial(make_record_without_hub, name=name, about=OWN_IMAGES, terms="one's own")
    return make_record(classes=0, train_images=0, test_images=0, channels=channels, size=size)


_photographs = partial(DatasetRecord, config="", image_column="image", label_column="label", train_split="train",
    test_split="validation", channels=3, size=224)  # fmt: skip
_IMAGENETTE = _photographs(name="imagenette", about="ten distinct classes of ImageNet, photographs at 128 x 128",
    hub="frgfm/imagenette", revision="4b23ffb92a8029db9958bdfdbd6978427d09b1a0", config="160px", classes=10,
    train_images=9469, test_images=3925, size=128,
    terms="Apache 2.0 (fast.ai); the photographs belong to their owners and are for research",
    crop=_USUAL_CROP)  # fmt: skip
_IMAGENET = _photographs(name="imagenet",
    about="the 1,000 classes of ILSVRC 2012; its validation images are the test images, as the hub has no test labels",
    hub="ILSVRC/imagenet-1k", revision="49e2ee26f3810fb5a7536bbf732a7b07389a47b5", classes=1000, train_images=1_281_167,
    test_images=50_000, gated=True,
    terms="ImageNet's terms of access: research and education, not for commerce; accepted on the hub's page",
    crop=_USUAL_CROP)  # fmt: skip
_PLANTED = make_record_without_hub(name="planted",
    about="generated stripes whose true feature ranking is known for every image (docs/planted.md)", revision="1",
    train_split="train", test_split="test", classes=4, train_images=1000, test_images=2000, channels=3, size=16,
    terms="generated; no terms")  # fmt: skip
_BREAST_CANCER = make_record_without_hub(name="breast-cancer",
    about="30 measures of the cell nuclei in an image of a breast mass, malignant or benign (Street et al. 1993)",
    revision="1", label_column="diagnosis", classes=2, train_images=285, test_images=284, channels=30, size=1,
    bundled="breast-cancer", terms="CC BY 4.0 (UCI Machine Learning Repository, Breast Cancer Wisconsin (Diagnostic))",
    share=0.5)  # fmt: skip
_IMAGENETTE64 = replace(_IMAGENETTE, name="imagenette64",
    about="ten distinct classes of ImageNet, photographs at 64 x 64; comes with the package", size=64,
    bundled="imagenette64", crop=1.0)  # fmt: skip
_CIFAR10 = _photographs(name="cifar10", about="ten classes of small photographs (Krizhevsky 2009)",
    hub="uoft-cs/cifar10", revision="0b2714987fa478483af9968de7c934580d0bb9a2", config="plain_text", image_column="img",
    test_split="test", classes=10, train_images=50_000, test_images=10_000, size=32,
    terms="no licence stated; for research")  # fmt: skip
_FASHION_MNIST = _photographs(name="fashion-mnist", about="ten classes of clothes in grey (Xiao et al. 2017)",
    hub="zalando-datasets/fashion_mnist", revision="531be5e2ccc9dba0c201ad3ae567a4f3d16ecdd2", config="fashion_mnist",
    test_split="test", classes=10, train_images=60_000, test_images=10_000, channels=1, size=28,
    terms="MIT (Zalando SE)")  # fmt: skip
_TABLE = (
    _IMAGENETTE64,
    replace(_IMAGENETTE64, name="imagenette64-1000", about="imagenette64 with the first 100 test images of each class",
        test_images=1000),
    _CIFAR10,
    replace(_CIFAR10, name="cifar10-1000", about="cifar10 with the first 100 test images of each class",
        test_images=1000, of_each=5000),
    _FASHION_MNIST,
    replace(_FASHION_MNIST, name="fashion-mnist-1000",
        about="fashion-mnist with the first 100 test images of each class", test_images=1000, of_each=6000),
    _IMAGENETTE,
    _photographs(name="food101", about="101 dishes, training labels with some noise (Bossard et al. 2014)",
        hub="ethz/food101", revision="e06acf2a88084f04bce4d4a525165d68e0a36c38", classes=101, train_images=75_750,
        test_images=25_250, terms="no licence stated; the photographs are Foodspotting's, for research",
        crop=_USUAL_CROP),
    # Berg et al. 2014 list the addresses of 49,829 images. Hooker et al. 2019 could fetch all of them (47,386 for
    # training and 2,443 for testing); the hub's copy has 39,860 images in one split. Five test images per class are
    # drawn at random, which is about the original share
    _photographs(name="birdsnap",
        about="500 species of North American birds (Berg et al. 2014), as many as could be fetched in 2022",
        hub="sasha/birdsnap", revision="37beb97b7900281cd67ac189d4fb91c589b25582", test_split="train", classes=500,
        train_images=37_360, test_images=2_500,
        terms="no licence stated; the photographs are Flickr users', for research", crop=_USUAL_CROP, holdout=5),
    _IMAGENET,
    replace(_IMAGENET, name="imagenet-10k",
        about="the first ten training images of each class of ImageNet, and the first ten of its validation split",
        train_images=10_000, test_images=10_000, of_each=10),
    replace(_IMAGENET, name="imagenet-5k",
        about="the first five training images of each class of ImageNet, and the first five of its validation split",
        train_images=5_000, test_images=5_000, of_each=5),
    # ImageNet's smallest class has 732 training images (arXiv 1409.0575, table 2); each class has 50 validation images
    replace(_IMAGENET, name="imagenet-100-64",
        about="every tenth class of ImageNet (ids 0, 10, … 990) with 732 training images each, at 64 x 64",
        classes=100, class_step=10, train_images=73_200, test_images=5_000, size=64),
    _PLANTED,
    replace(_PLANTED, name="planted-corners",
        about="photographs with a patch in each corner that names the class (docs/planted.md)", config="corners",
        classes=10, train_images=3000, test_images=1000, size=64, terms=_IMAGENETTE64.terms),
    _BREAST_CANCER,
    replace(_BREAST_CANCER, name="breast-cancer-10",
        about="breast-cancer with its ten means alone, few enough for exact Shapley values",
        columns=tuple(f"mean {name.replace('_', ' ')}" for name in _BREAST_CANCER_MEASURES.split()), channels=10),
    replace(_BREAST_CANCER, name="digits",
        about="handwritten digits as 64 ink counts, one per field of 4 x 4 pixels (Alpaydin et al. 1998)",
        bundled="digits", label_column="digit", classes=10, channels=64, train_images=899, test_images=898,
        terms="CC BY 4.0 (UCI Machine Learning Repository, Optical Recognition of Handwritten Digits)"),
)  # fmt: skip
DATASETS = {record.name: record for record in _TABLE}


def find_dataset(name: str) -> DatasetRecord:
    """Return the data set of this name; raise UnknownName if there is no such data set."""
    if name not in DATASETS:
        raise UnknownName("data set", name, DATASETS)
    return DATASETS[name]
