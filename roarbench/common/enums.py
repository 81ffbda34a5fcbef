"""Enumerations of ROAR's terms; `docs/words.md` defines them."""

from enum import StrEnum


class Split(StrEnum):
    """A split of a data set."""

    TRAIN = "train"
    TEST = "test"


TEST_IDS = 2**32  # first id of test images; training images have smaller ids, so an id denotes one image


class Order(StrEnum):
    """The order in which features are removed."""

    __hash__ = str.__hash__  # records are looked up often; that of Enum runs in Python

    MORF = "morf"  # most relevant first
    LERF = "lerf"  # least relevant first


class Unit(StrEnum):
    """The unit of a feature."""

    __hash__ = str.__hash__  # records are looked up often; that of Enum runs in Python

    SCALAR = "scalar"  # each number of an image, channels x height x width, is a feature (Hooker et al. 2019)
    PIXEL = "pixel"  # a pixel with all channels is a feature; maps are summed over channels (Rong et al. 2022)

    def grid(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return the shape of the array of features of an image with this shape, (channels, height, width)."""
        channels, height, width = shape
        return channels if self is Unit.SCALAR else 1, height, width


class ScoredNetwork(StrEnum):
    """The network that is scored at a level (removal fraction)."""

    __hash__ = str.__hash__  # records are looked up often; that of Enum runs in Python

    IMAGES = "images"  # network trained from scratch on degraded images
    MASKS = "masks"  # network trained from scratch on binary removal masks
    NONE = "none"  # explained network, not trained further
    EXCHANGED = "exchanged"  # of stored rows of the removed protocol `roar-exchanged` alone
    COMMON = "common"  # network trained with the controls' exchanged masks, and tuned with the row's exchanged masks
    SIBLINGS = "siblings"  # each explained network, not trained further, with the maps of every explained network

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
    """Precision and batching with which maps are computed; the meaning of a published name never changes."""

    FLOAT32 = "float32"  # float32, with the network unchanged
    # `Precision.BF16`, with batch norms folded into convolutions (docs/decisions/0019); on hardware without bfloat16,
    # as FLOAT32_STEM, and recorded as such
    BF16 = "bf16"
    # float32, with batch norms folded; all points of a path pass through the stem together (docs/decisions/0032)
    FLOAT32_STEM = "float32-stem"
    BF16_STEM = "bf16-stem"  # as FLOAT32_STEM, but all layers after the stem compute in `Precision.BF16`

    @property
    def precision(self) -> Precision:
        return Precision.BF16 if self in (MapNumerics.BF16, MapNumerics.BF16_STEM) else Precision.FLOAT32

    @property
    def passes_path_through_stem_at_once(self) -> bool:
        """Return whether all points of a path pass together through the network's stem, its first convolution."""
        return self in (MapNumerics.FLOAT32_STEM, MapNumerics.BF16_STEM)


OTHER_IMAGE = "other-image"  # twin that removes the features that its parent ranks first in another image
OTHER_REFERENCE = "other-reference"  # twin that uses its parent's map of the suite's next explained network
# twin like `OTHER_IMAGE` that removes as many features of each stratum as the image's own map does
MATCHED_IMAGE = "matched"
# minimum networks for own-network gain; two networks would form a single pair, which cannot represent other pairs
FEWEST_NETWORKS = 3
PAPER_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)  # removal fractions of Hooker et al. 2019, section 4
OWN_NETWORK_LEVELS = (0.05, 0.5)  # removal fractions chosen on `planted-corners` (studies/own_network)
