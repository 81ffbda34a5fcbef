"""Training recipes, and the learning rate and image size of each step. Nothing here imports torch."""

from dataclasses import dataclass
from enum import StrEnum

from roarbench.common.enums import Precision


class Decay(StrEnum):
    """Schedule of the learning rate after the warm-up."""

    STEPS = "steps"  # peak x 0.1 from epoch 30, x 0.01 from 60, x 0.001 from 80 (Hooker et al. 2019, released code)
    LINEAR = "linear"  # falls linearly to 0 at the end


class Augmentation(StrEnum):
    """Augmentation of a degraded training image before normalisation."""

    NONE = "none"
    FLIP = "flip"  # mirrored horizontally with probability 1/2
    SHIFT = "shift"  # shifted by up to 1/16 of the size in each direction; the mirrored edge fills the gap
    SHIFT_FLIP = "shift-flip"
    NOISE_FLIP = "noise-flip"  # normal noise with a random standard deviation per image, and flip
    CROP_FLIP = "crop-flip"  # random-resized crop (area .08-1, aspect 3/4-4/3, bicubic) and flip
    CORNERS = "corners"  # `planted-corners` patches of random classes in all corners except the network's own


class Optimiser(StrEnum):
    """The optimiser."""

    SGD = "sgd"  # with Nesterov momentum
    ADAMW = "adamw"  # Loshchilov & Hutter 2019, betas `momentum` and 0.999; transformers do not learn with SGD


DECAY_STEPS = ((80, 1e-3), (60, 1e-2), (30, 1e-1))  # (from epoch, factor), latest first


@dataclass(frozen=True)
class Recipe:
    """All settings that determine a training run, except the network, the data and the seed."""

    name: str
    version: int  # increases with every change of the computation
    epochs: float  # passes over the training images; may be fractional
    batch: int  # images per step
    peak: float  # learning rate after the warm-up
    warmup: float  # epochs of linear rise from 0 to `peak`
    decay: Decay
    augmentation: Augmentation
    precision: Precision = Precision.BF16  # precision of training steps; evaluation always uses float32
    momentum: float = 0.9  # Nesterov momentum, or AdamW's first beta
    weight_decay: float = 1e-4  # for all weights except biases and batch norm
    smoothing: float = 0.1  # label smoothing: share of the target that is uniform over all classes
    # side of training images as a share of the full side, one for each of several equally long parts of the training
    # run; degraded images are shrunk before augmentation (progressive resolution, Howard 2018). Tests use the full size
    sides: tuple[float, ...] = (1.0,)
    # images per forward pass; the gradients of several passes add up to those of `batch` images. Batch norm computes
    # its statistics over the images of one pass, so this number changes results. 0 means `batch`
    micro_batch: int = 0
    # published weights from which each training run starts, `NAME@CHECKSUM` or `torchvision:NAME/WEIGHTS`; if empty,
    # random weights
    start: str = ""
    # settings that differ from the recipe of this name and version in the table of recipes, such as `(epochs=6)`; empty
    # for a recipe of the table
    changes: str = ""
    optimiser: Optimiser = Optimiser.SGD
    # whether training runs on a GPU compile the network. Compiled code rounds differently, so this is a setting of the
    # recipe
    compile: bool = False

    @property
    def mean_relative_image_area(self) -> float:
        """Return the mean number of pixels of a training image, relative to the full size."""
        return sum(side**2 for side in self.sides) / len(self.sides)

    @property
    def uses_micro_batches(self) -> bool:
        """Return whether a step's batch passes through the network in parts."""
        return 0 < self.micro_batch < self.batch

    @property
    def title(self) -> str:
        """Return `name@version` with changed settings: `quick@2(epochs=6)`."""
        return f"{self.name}@{self.version}{self.changes}"


def compute_learning_rate(recipe: Recipe, step: int, steps_per_epoch: float) -> float:
    """Return the learning rate at a step; steps count from 0, and `steps_per_epoch` may be fractional."""
    epoch = step / steps_per_epoch
    if epoch < recipe.warmup:
        return recipe.peak * epoch / recipe.warmup
    if recipe.decay is Decay.LINEAR:
        return recipe.peak * max(0.0, recipe.epochs - epoch) / (recipe.epochs - recipe.warmup)
    return recipe.peak * next((factor for start, factor in DECAY_STEPS if epoch >= start), 1.0)


def find_side_share(recipe: Recipe, step: int, steps: int) -> float:
    """Return the side of the training images at a step as a share of the full side; steps count from 0."""
    return recipe.sides[step * len(recipe.sides) // steps]


def compute_image_side(recipe: Recipe, step: int, steps: int, full: int) -> int:
    """Return the side of the training images at a step, in pixels; steps count from 0, and `full` is the full side."""
    return round(full * find_side_share(recipe, step, steps))
