"""How a network's accuracy falls as features go, without any training: for any torch model, in seconds."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from roarbench.api.primitives import fill_of, masks_of, pixels_of, samples, tensor
from roarbench.errors import CallerError
from roarbench.kernels.degrade import degrade
from roarbench.models.outputs import logits_of
from roarbench.stats.bootstrap import Bootstrap, Estimate, estimate
from roarbench.stats.curves import area_weights
from roarbench.terms import PAPER_LEVELS

if TYPE_CHECKING:
    import pandas

_BATCH = 64


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
    levels: tuple[float, ...] = PAPER_LEVELS,
    fill: Any = None,
) -> Curve:
    """Measure how a network's accuracy falls as the features go that maps call most, or least, important.

    Nothing is trained, so that what is measured is also how the network takes damage that it has never seen.

    Args:
        model: Any network, logits out; it is put into eval mode and back.
        images: Float (n, c, h, w), as the network takes them.
        labels: Int (n,), the true classes.
        maps: (n, c, h, w), (n, 1, h, w) or (n, h, w), larger is more important.
        order: `morf` removes the most important features first, `lerf` the least important.
        levels: Fractions of features to remove, ascending in (0, 1].
        fill: What replaces a removed feature, (c,); the mean of these images' channels if None.

    Raises:
        CallerError: These do not fit together.
    """
    pixels, classes = pixels_of(images), tensor(labels).long()
    if classes.shape != (len(pixels),):
        raise CallerError(f"labels have shape {tuple(classes.shape)}, expected ({len(pixels)},)")
    value, steps = fill_of(pixels, fill), (0.0, *levels)
    if list(steps) != sorted(set(steps)):
        raise CallerError(f"levels are {levels}, expected numbers above 0 and up to 1, each larger than the last")
    training = model.training
    model.eval()
    try:
        logits = torch.stack([_logits(model, pixels, masks_of(maps, pixels.shape, t, order), value) for t in steps])
    finally:
        model.train(training)
    correct = (logits.argmax(2) == classes).double().numpy()
    predicted = logits[0].argmax(1)
    probability = logits.softmax(2)[:, torch.arange(len(pixels)), predicted].mean(1)
    rows = np.vstack([correct, np.asarray(area_weights(steps)) @ correct])  # the last one's mean is the area
    *found, area = (estimate(one, Bootstrap().confidence) for one in samples(rows, Bootstrap()))
    return Curve(order, steps, tuple(found), tuple(probability.tolist()), area)


def _logits(model: nn.Module, pixels: Tensor, removed: Tensor, fill: Tensor) -> Tensor:
    """Return the logits of degraded images, on the processor, float32 (n, classes)."""
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    parts = [slice(start, start + _BATCH) for start in range(0, len(pixels), _BATCH)]
    with torch.inference_mode():
        seen = (degrade(pixels[part], removed[part], fill).to(device) for part in parts)
        return torch.cat([logits_of(model(images)).cpu().float() for images in seen])
