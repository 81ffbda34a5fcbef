"""Enumerations of ROAR's terms; `docs/words.md` defines them."""

from enum import StrEnum


class Split(StrEnum):
    """A split of a data set."""

    TRAIN = "train"
    TEST = "test"


TEST_IDS = 2**32  # first id of test images, so that an id denotes one image of the data set


class Order(StrEnum):
    """The end of the ranking that is removed first."""

    MORF = "morf"  # most relevant first
    LERF = "lerf"  # least relevant first


class Unit(StrEnum):
    """The unit of a feature."""

    SCALAR = "scalar"  # one number of channels x height x width (Hooker et al. 2019)
    PIXEL = "pixel"  # all channels of a pixel together; the map is summed over channels (Rong et al. 2022)

    def grid(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return the layers, rows and columns of features in an image of this shape (channels, height, width)."""
        channels, height, width = shape
        return channels if self is Unit.SCALAR else 1, height, width


class ScoredNetwork(StrEnum):
    """The network that is scored at a level."""

    IMAGES = "images"  # network trained from scratch on degraded images
    MASKS = "masks"  # network trained from scratch on binary removal masks
    NONE = "none"  # the reference, unchanged
    EXCHANGED = "exchanged"  # network trained from scratch on images with other images' removal masks of the same cell
    COMMON = "common"  # network trained on the controls' exchanged masks, and tuned on those of the row
    SIBLINGS = "siblings"  # every reference, unchanged, under every reference's map

    @property
    def trains(self) -> bool:
        """Return whether a network is trained for scoring; if not, an explained network is scored."""
        return self not in (ScoredNetwork.NONE, ScoredNetwork.SIBLINGS)

    @property
    def trains_per_run(self) -> bool:
        """Return whether each run trains a network that no other run uses."""
        return self.trains and self is not ScoredNetwork.COMMON


class Precision(StrEnum):
    """The precision of a network's computation."""

    FLOAT32 = "float32"
    BF16 = "bf16"  # bfloat16 autocast on hardware with bfloat16, otherwise float32


class MapNumerics(StrEnum):
    """Precision and batching with which maps are computed; the meaning of a name never changes."""

    FLOAT32 = "float32"  # unchanged network
    BF16 = "bf16"  # `Precision.BF16`, batch norms folded into convolutions (docs/decisions/0019)
    # batch norms folded; all points of a path pass the stem together (docs/decisions/0032)
    FLOAT32_STEM = "float32-stem"
    BF16_STEM = "bf16-stem"  # BF16 and FLOAT32_STEM together

    @property
    def precision(self) -> Precision:
        """Return the precision of the network's passes."""
        return Precision.BF16 if self in (MapNumerics.BF16, MapNumerics.BF16_STEM) else Precision.FLOAT32

    @property
    def shares_stem_pass(self) -> bool:
        """Return whether all points of a path pass through the network's stem together."""
        return self in (MapNumerics.FLOAT32_STEM, MapNumerics.BF16_STEM)


PLAIN_FILLS = ("mean", "zero", "blur", "noise")  # fill values that do not depend on the other removed features
FILLS = (*PLAIN_FILLS, "linear", "neighbours")  # all fill values
FILL_WORDS = {"black": "zero"}  # names of baselines for fills; records keep the second name
TABULAR_FILLS = ("mean", "zero", "noise")  # fill values without neighbours, which columns of a table lack
OTHER_IMAGE = "other-image"  # twin that removes the features that the parent ranks first in another image
OTHER_REFERENCE = "other-reference"  # twin with the map of the suite's next reference
MATCHED_IMAGE = "matched"  # like `OTHER_IMAGE`, with as many features per stratum as the image's own map removes
# minimum networks for own-network gain: two networks form a single pair, which cannot represent other pairs
FEWEST_NETWORKS = 3
PAPER_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)  # Hooker et al. 2019, section 4
OWN_NETWORK_LEVELS = (0.05, 0.5)  # chosen on planted-corners (studies/own_network)
