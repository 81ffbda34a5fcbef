"""Enumerations of ROAR's terms; `docs/words.md` defines them."""

from enum import StrEnum


class Split(StrEnum):
    """A split of a data set."""

    TRAIN = "train"
    TEST = "test"


TEST_IDS = 2**32  # test images are numbered from here on, so that an id means one image of the data set


class Order(StrEnum):
    """The end of the ranking that is removed first."""

    MORF = "morf"  # most relevant first
    LERF = "lerf"  # least relevant first


class Unit(StrEnum):
    """The unit of a feature."""

    SCALAR = "scalar"  # one number of channels x height x width (Hooker et al. 2019)
    PIXEL = "pixel"  # all channels of a pixel together; the map is summed over channels (Rong et al. 2022)

    def grid(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return layers, rows and columns of the features of an image with these channels, height and width."""
        channels, height, width = shape
        return channels if self is Unit.SCALAR else 1, height, width


class ScoredNetwork(StrEnum):
    """The network that is scored at a level."""

    IMAGES = "images"  # trained from scratch on the degraded images
    MASKS = "masks"  # trained from scratch on the binary removal masks alone
    NONE = "none"  # the reference, as it is
    EXCHANGED = "exchanged"  # trained from scratch on images that carry other images' removal masks of the same cell
    COMMON = "common"  # one for all rows, trained on the controls' exchanged masks, then tuned on the row's own
    SIBLINGS = "siblings"  # every reference, as it is, under the maps that explain each of them

    @property
    def trains(self) -> bool:
        """Return whether a network was trained for scoring; else an explained network is scored."""
        return self not in (ScoredNetwork.NONE, ScoredNetwork.SIBLINGS)


class Precision(StrEnum):
    """The precision of a network's computation."""

    FLOAT32 = "float32"
    BF16 = "bf16"  # bfloat16 autocast where the processor has it, else float32


class Making(StrEnum):
    """How estimators that share passes make their maps; a name never changes its meaning."""

    FLOAT32 = "float32"  # by the network as it is
    BF16 = "bf16"  # in `Precision.BF16`, batch norms folded into convolutions (docs/decisions/0019)
    FLOAT32_STEM = "float32-stem"  # batch norms folded, a path's points pass the stem together (docs/decisions/0032)
    BF16_STEM = "bf16-stem"  # both

    @property
    def precision(self) -> Precision:
        """Return the precision of the network's passes."""
        return Precision.BF16 if self in (Making.BF16, Making.BF16_STEM) else Precision.FLOAT32

    @property
    def divides(self) -> bool:
        """Return whether the network's stem is passed once per path."""
        return self in (Making.FLOAT32_STEM, Making.BF16_STEM)


PLAIN_FILLS = ("mean", "zero", "blur", "noise")  # what replaces a feature whichever others are removed
FILLS = (*PLAIN_FILLS, "linear", "neighbours")  # what can replace a removed feature
FILL_WORDS = {"black": "zero"}  # other words for fills, the first as baselines have it; records keep the second
TABULAR_FILLS = ("mean", "zero", "noise")  # those that look at no neighbours, which the columns of a table do not have
OTHER_IMAGE = "other-image"  # the twin that removes from each image what its parent ranks first in another one
OTHER_REFERENCE = "other-reference"  # the twin whose map explains the next one of a suite's references
MATCHED_IMAGE = "matched"  # the same as `OTHER_IMAGE`, as many features of each stratum as the image's own map removes
FEWEST_NETWORKS = 3  # of own-network gain: two networks form one pair, which says nothing about other pairs
PAPER_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)  # Hooker et al. 2019, section 4
OWN_NETWORK_LEVELS = (0.05, 0.5)  # chosen on planted-corners (studies/own_network)
