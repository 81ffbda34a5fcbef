"""How a network's accuracy falls as features go, without any training: for any torch model, in seconds."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from roarbench.api.inputs import check_labels, images_of, in_steps, labels_of, placed, range_of
from roarbench.api.primitives import fill_of, ids_of, ranked_for, removed_of, samples
from roarbench.api.removal import evaluating
from roarbench.errors import CallerError, UnknownName
from roarbench.kernels.degrade import degrade
from roarbench.kernels.fill import filled
from roarbench.models.checks import check_network
from roarbench.models.outputs import logits_of, with_two_classes
from roarbench.stats.bootstrap import Bootstrap, Estimate, estimate
from roarbench.stats.curves import area_weights
from roarbench.terms import FILLS, PAPER_LEVELS

if TYPE_CHECKING:
    import pandas

_BATCH = 64
_FEW = 4  # images that a network is checked on

Replace = Callable[[slice, Tensor], Tensor]  # rows of the images, and their mask: the images degraded


@dataclass(frozen=True)
class Curve:
    """Accuracy of a network by the fraction of features removed.

    Attributes:
        order: `morf` or `lerf`: which features go first.
        levels: Fractions of features removed, 0 among them.
        accuracy: In [0, 1], with intervals of 95% over the images.
        probability: Mean softmax probability of the class that is predicted for the untouched image, in [0, 1].
        area: Mean accuracy over the levels, by the trapezoid rule, with its interval.
    """

    order: str
    levels: tuple[float, ...]
    accuracy: tuple[Estimate, ...]
    probability: tuple[float, ...]
    area: Estimate

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row for each level."""
        import pandas

        rows = zip(self.levels, *zip(*self.accuracy, strict=True), self.probability, strict=True)
        frame = pandas.DataFrame(rows, columns=["t", "accuracy", "low", "high", "probability"])
        frame.attrs["order"] = self.order
        return frame


def curve(
    model: nn.Module,
    images: Any,
    labels: Any,
    maps: Any,
    order: str = "morf",
    levels: Sequence[float] = PAPER_LEVELS,
    fill: Any = None,
    seed: int = 0,
) -> Curve:
    """Measure how a network's accuracy falls as the features go that maps call most, or least, important.

    Nothing is trained, so that what is measured is also how the network takes damage that it has never seen.

    Args:
        model: Any network, logits out, or one logit z of a binary network, whose class 1 has the probability
            sigmoid(z); it is put into eval mode and back.
        images: Float (n, c, h, w), as the network takes them.
        labels: Whole numbers (n,), the true classes, from 0 on.
        maps: (n, c, h, w), (n, 1, h, w) or (n, h, w), larger is more important.
        order: `morf` removes the most important features first, `lerf` the least important.
        levels: Fractions of features to remove, ascending in (0, 1].
        fill: What replaces a removed feature, (c,); the mean of these images' channels if None. Or the name of a fill
            of suites, such as `linear`, ROAD's; `zero` is the least value of a channel then.
        seed: Of the chance that breaks ties, which belongs to an image wherever it stands among the others.

    Raises:
        CallerError: These do not fit together, or the network's logits depend on more than the image.
    """
    pixels = images_of(images)
    classes = labels_of(labels, len(pixels))
    steps, replace = (0.0, *levels), _replacing(pixels, fill)
    if len(steps) < 2 or list(steps) != sorted(set(steps)):
        raise CallerError(f"levels are {levels}, expected numbers above 0 and up to 1, each larger than the last")
    if not isinstance(model, nn.Module):
        raise CallerError(f"the network is a {type(model).__name__}, expected a torch.nn.Module")
    ranked = ranked_for(pixels, maps, seed)
    removed = (removed_of(ranked, tuple(pixels.shape), t, order) for t in steps)
    with evaluating([model]):
        network = _checked(model, pixels)
        logits = torch.stack([_logits(network, mask, replace) for mask in removed])
    check_labels(classes, logits.shape[2])
    if logits.isnan().any():
        t = steps[int(logits.isnan().flatten(1).any(1).int().argmax())]
        raise CallerError(f"the network gives logits that are NaN where the fraction {t:g} of an image is removed")
    correct = (logits.argmax(2) == torch.from_numpy(classes)).double().numpy()
    predicted = logits[0].argmax(1)
    probability = logits.softmax(2)[:, torch.arange(len(pixels)), predicted].mean(1)
    rows = np.vstack([correct, np.asarray(area_weights(steps)) @ correct])  # the last one's mean is the area
    *found, area = (estimate(one, Bootstrap().confidence) for one in samples(rows, Bootstrap()))
    return Curve(order, steps, tuple(found), tuple(probability.tolist()), area)


def _replacing(pixels: Tensor, fill: Any) -> Replace:
    """Return what makes images `rows` of these with the features removed that a mask names."""
    if not isinstance(fill, str) or fill == "mean":
        value = fill_of(pixels, None if isinstance(fill, str) else fill)
        return lambda rows, removed: degrade(pixels[rows], removed, value)
    if fill not in FILLS:
        raise UnknownName("fill", fill, FILLS)
    low, high = kept = range_of(pixels.numpy())
    whole, ids = torch.from_numpy(in_steps(pixels.numpy(), kept)), ids_of(pixels)
    mean, start, step = whole.float().mean((0, 2, 3)), *(torch.from_numpy(e).float() for e in (low, (high - low) / 255))

    def replace(rows: slice, removed: Tensor) -> Tensor:
        values = filled(whole[rows], removed, fill, mean, ids[rows])
        return torch.where(removed, values * step[:, None, None] + start[:, None, None], pixels[rows])

    return replace


def _checked(model: nn.Module, pixels: Tensor) -> nn.Module:
    """Return a network with a logit for each class, and warn of what speaks against it; CallerError if it is none."""
    few = placed(model, pixels[: max(2, min(_FEW, len(pixels)))])
    few = few if len(few) > 1 else few.repeat(2, 1, 1, 1)
    network = with_two_classes(model, few)
    for warning in check_network(network, few):
        warnings.warn(warning, stacklevel=3)
    return network


def _logits(model: nn.Module, removed: Tensor, replace: Replace) -> Tensor:
    """Return the logits of degraded images, on the processor, float32 (n, classes)."""
    parts = [slice(start, start + _BATCH) for start in range(0, len(removed), _BATCH)]
    with torch.inference_mode():
        seen = (placed(model, replace(part, removed[part])) for part in parts)
        return torch.cat([logits_of(model(images)).cpu().float() for images in seen])
