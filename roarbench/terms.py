"""The vocabulary of ROAR as plain types; `docs/words.md` says what each word means."""

from enum import StrEnum
from typing import NamedTuple


class Split(StrEnum):
    """Part of a data set."""

    TRAIN = "train"
    TEST = "test"


TEST_IDS = 2**32  # test images are numbered from here on, so that an id means one image of the data set


class Order(StrEnum):
    """End of the ranking that is removed first."""

    MORF = "morf"  # most relevant first
    LERF = "lerf"  # least relevant first


class Unit(StrEnum):
    """Size of one feature."""

    SCALAR = "scalar"  # one number of channels x height x width (Hooker et al. 2019)
    PIXEL = "pixel"  # all channels of a pixel together; the map is summed over channels (Rong et al. 2022)
    PATCH_4 = "patch:4"  # a square of 4 x 4 pixels; the map is summed over it and over channels
    PATCH_8 = "patch:8"
    SUPERPIXEL = "superpixel"  # pixels, those of a superpixel one after the other; the map is averaged over it

    @property
    def side(self) -> int:
        """Return the height and width of the squares of pixels that are one feature."""
        return int(self.partition(":")[2] or 1)

    def grid(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return layers, rows and columns of an image's features; squares that its border cuts are features, too.

        Args:
            shape: Channels, height and width of an image.
        """
        channels, height, width = shape
        return channels if self is Unit.SCALAR else 1, -(-height // self.side), -(-width // self.side)

    @property
    def stem(self) -> str:
        """Return its name within those of files and addresses, where a colon would end a scheme."""
        return self.replace(":", "")


class Retrain(StrEnum):
    """Network that is scored at a level."""

    IMAGES = "images"  # trained from scratch on the degraded images
    MASKS = "masks"  # trained from scratch on the binary removal masks alone
    NONE = "none"  # the reference, as it is
    EXCHANGED = "exchanged"  # trained from scratch on images that carry other images' removal masks of the same cell
    RECURSIVE = "recursive"  # trained from scratch where networks of lower levels, explained anew, say what matters
    COMMON = "common"  # one for all rows, trained on the controls' exchanged masks, then tuned on the row's own


class Precision(StrEnum):
    """The numbers that a network computes with."""

    FLOAT32 = "float32"
    BF16 = "bf16"  # bfloat16 autocast where the processor has it, else float32


class Making(StrEnum):
    """Way of making the maps of estimators that share passes; a name never means something else."""

    FLOAT32 = "float32"  # by the network as it is
    BF16 = "bf16"  # in `Precision.BF16`, batch norms folded into convolutions (docs/decisions/0019)
    FLOAT32_STEM = "float32-stem"  # batch norms folded, a path's points pass the stem together (docs/decisions/0032)
    BF16_STEM = "bf16-stem"  # both

    @property
    def precision(self) -> Precision:
        """Return what the network is to compute with."""
        return Precision.BF16 if self in (Making.BF16, Making.BF16_STEM) else Precision.FLOAT32

    @property
    def divides(self) -> bool:
        """Return whether the network's stem is passed once for each path."""
        return self in (Making.FLOAT32_STEM, Making.BF16_STEM)


PLAIN_FILLS = ("mean", "zero", "blur", "noise")  # what replaces a feature whichever others are removed
FILLS = (*PLAIN_FILLS, "linear", "neighbours")  # what can replace a removed feature
OTHER_IMAGE = "other-image"  # the twin that removes from each image what its parent ranks first in another one
SAME_CLASS = "same-class"  # the same, with another image of its own class
OTHER_REFERENCE = "other-reference"  # the twin whose map explains the next one of a suite's references
MATCHED_IMAGE = "matched"  # the same as `OTHER_IMAGE`, as many features of each stratum as the image's own map removes


class Protocol(NamedTuple):
    """A named question: an order with a network.

    Attributes:
        name: What `--protocol` takes.
        order: Which end of the ranking is removed first.
        retrain: Which network is scored.
        against: Each image is answered twice, with its own removal mask and with that of another image, which this twin
            of the row hands it; the gain is the difference. Empty where each image is answered once.
        made_of: Two protocols whose answers are held against each other, the first's minus the second's of the same
            row, level and seed. Nothing is run for such a protocol. Empty where a suite has cells of its own for it.
    """

    name: str
    order: Order
    retrain: Retrain
    against: str = ""
    made_of: tuple["Protocol", ...] = ()

    @property
    def paired(self) -> bool:
        """Return whether each image is answered twice."""
        return bool(self.against)

    @property
    def by_difference(self) -> bool:
        """Return whether gains are differences of answers, image by image, so that there is one at every level."""
        return self.retrain is Retrain.COMMON or bool(self.made_of)

    @property
    def random_is_zero(self) -> bool:
        """Return whether Random's gain is 0 by construction: rows are then held against 0, not against its chance."""
        return self.paired or bool(self.made_of)

    def counterpart(self, estimator: str) -> str:
        """Return the id of the twin that a row is held against, where each image is answered twice."""
        return f"{estimator}~{self.against}"


ROAR = Protocol("roar", Order.MORF, Retrain.IMAGES)
KAR = Protocol("kar", Order.LERF, Retrain.IMAGES)
MORF = Protocol("morf", Order.MORF, Retrain.NONE)
LERF = Protocol("lerf", Order.LERF, Retrain.NONE)
MASK_ONLY = Protocol("mask-only", Order.MORF, Retrain.MASKS)
SPECIFIC = Protocol("specific", Order.MORF, Retrain.COMMON, OTHER_IMAGE)
SPECIFIC_LERF = Protocol("specific-lerf", Order.LERF, Retrain.COMMON, OTHER_IMAGE)
SPECIFIC_CLASS = Protocol("specific-class", Order.MORF, Retrain.COMMON, SAME_CLASS)
MATCHED = Protocol("matched", Order.MORF, Retrain.COMMON, MATCHED_IMAGE)
MATCHED_LERF = Protocol("matched-lerf", Order.LERF, Retrain.COMMON, MATCHED_IMAGE)
AUGMENTED = Protocol("augmented", Order.MORF, Retrain.COMMON)
AUGMENTED_LERF = Protocol("augmented-lerf", Order.LERF, Retrain.COMMON)
ROAR_EXCHANGED = Protocol("roar-exchanged", Order.MORF, Retrain.EXCHANGED)
KAR_EXCHANGED = Protocol("kar-exchanged", Order.LERF, Retrain.EXCHANGED)
ROAR_RECURSIVE = Protocol("roar-recursive", Order.MORF, Retrain.RECURSIVE)  # Madsen et al. 2022
PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        *(ROAR, KAR, MORF, LERF, MASK_ONLY),
        *(AUGMENTED, AUGMENTED_LERF, SPECIFIC, SPECIFIC_LERF, SPECIFIC_CLASS, MATCHED, MATCHED_LERF),
        *(ROAR_EXCHANGED, KAR_EXCHANGED, ROAR_RECURSIVE),
    )
}
DIFFROAR = Protocol("diffroar", Order.LERF, Retrain.IMAGES, made_of=(KAR, ROAR))  # Shah et al. 2021
SHOWN = {**PROTOCOLS, DIFFROAR.name: DIFFROAR}  # what a table can be of: `PROTOCOLS` are those that are run

PAPER_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)  # Hooker et al. 2019, section 4
