"""Training recipes: learning rate and image size. Nothing here imports torch."""

from dataclasses import dataclass
from enum import StrEnum

from roarbench.enums import Precision


class Decay(StrEnum):
    """Schedule of the learning rate after the warm-up."""

    STEPS = "steps"  # x0.1 from epoch 30, x0.01 from 60, x0.001 from 80 (Hooker et al. 2019, released code)
    LINEAR = "linear"  # in a straight line to 0 at the end


class Augmentation(StrEnum):
    """Augmentation of a degraded training image before normalisation."""

    NONE = "none"
    FLIP = "flip"  # mirrored left to right, every second time
    SHIFT = "shift"  # moved by up to 1/16 of the size in each direction, the edge mirrored into the gap
    SHIFT_FLIP = "shift-flip"
    NOISE_FLIP = "noise-flip"  # normal noise of a strength drawn for each image, and flip
    CROP_FLIP = "crop-flip"  # random-resized crop (area .08-1, aspect 3/4-4/3, bicubic) and flip
    CORNERS = "corners"  # patches of `planted-corners` that name random classes, but for the network's own corner


class Optimiser(StrEnum):
    """The optimiser."""

    SGD = "sgd"  # with Nesterov momentum
    ADAMW = "adamw"  # Loshchilov & Hutter 2019, betas `momentum` and 0.999: transformers do not learn without it


DECAY_STEPS = ((80, 1e-3), (60, 1e-2), (30, 1e-1))  # (from epoch, factor), latest first


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a training, apart from network, data and seed."""

    name: str
    version: int  # counts up with every change of what is computed
    epochs: float  # passes over the training images; need not be whole
    batch: int  # images in a step
    peak: float  # learning rate after the warm-up
    warmup: float  # epochs in which the learning rate rises from 0 to `peak` in a straight line
    decay: Decay
    augmentation: Augmentation
    precision: Precision = Precision.BF16  # of the training steps; evaluation is always float32
    momentum: float = 0.9  # Nesterov momentum, or AdamW's first beta
    weight_decay: float = 1e-4  # on all weights but biases and those of batch norm
    smoothing: float = 0.1  # label smoothing: the share of the target spread evenly over all classes
    # side of the training images as a share of the full one, in equal parts of the training: degraded images are shrunk
    # before they are augmented (progressive resolution, Howard 2018). Tests are at full size
    sides: tuple[float, ...] = (1.0,)
    # images that go through the network at once; gradients add up to those of `batch` images before a step. Batch norm
    # takes its statistics over this many, so it is part of what is computed. 0: `batch`
    micro_batch: int = 0
    # the published weights that every training begins with: `NAME@CHECKSUM`, or `torchvision:NAME/WEIGHTS` as
    # torchvision calls them; empty for random ones
    start: str = ""
    # in what it differs from the recipe of the table with its name and version, as its title has it: `(epochs=6)`;
    # empty for one of the table
    changes: str = ""
    optimiser: Optimiser = Optimiser.SGD

    @property
    def area(self) -> float:
        """Return the mean number of pixels of a training image, relative to the full size."""
        return sum(side**2 for side in self.sides) / len(self.sides)

    @property
    def title(self) -> str:
        """Return `name@version` with changed settings: `quick@2(epochs=6)`."""
        return f"{self.name}@{self.version}{self.changes}"


def compute_learning_rate(recipe: Recipe, step: int, steps_per_epoch: float) -> float:
    """Return the learning rate of a step, counted from 0; an epoch may be a fraction of steps."""
    epoch = step / steps_per_epoch
    if epoch < recipe.warmup:
        return recipe.peak * epoch / recipe.warmup
    if recipe.decay is Decay.LINEAR:
        return recipe.peak * max(0.0, recipe.epochs - epoch) / (recipe.epochs - recipe.warmup)
    return recipe.peak * next((factor for start, factor in DECAY_STEPS if epoch >= start), 1.0)


def compute_image_side(recipe: Recipe, step: int, steps: int, full: int) -> int:
    """Return the side of the training images of a step, counted from 0, in pixels; `full` is the full size."""
    return round(full * recipe.sides[step * len(recipe.sides) // steps])
