"""How a network's accuracy falls as features go, without any training: for any torch model, in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from roarbench.api.inputs import check_labels, read_images, read_labels
from roarbench.api.primitives import bootstrap_means
from roarbench.api.removal import (
    Removal,
    check_model,
    compute_logits,
    make_replacer,
    mark_removed,
    rank_maps,
    set_evaluation_mode,
    split_into_batches,
)
from roarbench.enums import PAPER_LEVELS
from roarbench.errors import CallerError
from roarbench.stats.bootstrap import Bootstrap, Estimate, make_estimate
from roarbench.stats.curves import compute_area_weights

if TYPE_CHECKING:
    import pandas


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


def perturbation_curve(
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
            of suites, such as `linear`, ROAD's; `black` is the least value of a channel then.
        seed: Of the chance that breaks ties, which belongs to an image wherever it stands among the others.

    Raises:
        CallerError: These do not fit together, or the network's logits depend on more than the image.
    """
    pixels = read_images(images)
    classes = read_labels(labels, len(pixels))
    removal, replace = Removal.read(order, levels), make_replacer(pixels, fill)
    steps = (0.0, *removal.levels)
    ranked = rank_maps(pixels, maps, seed)
    removed = (mark_removed(ranked, pixels.shape, t, order) for t in steps)
    with set_evaluation_mode([model]):
        network = check_model(model, pixels)
        logits = torch.stack(
            [
                torch.cat([compute_logits(network, replace(part, mask[part])) for part in split_into_batches(pixels)])
                for mask in removed
            ]
        )
    check_labels(classes, logits.shape[2])
    if logits.isnan().any():
        t = steps[int(logits.isnan().flatten(1).any(1).int().argmax())]
        raise CallerError(f"the network gives logits that are NaN where the fraction {t:g} of an image is removed")
    correct = (logits.argmax(2) == torch.from_numpy(classes)).double().numpy()
    predicted = logits[0].argmax(1)
    probability = logits.softmax(2)[:, torch.arange(len(pixels)), predicted].mean(1)
    rows = np.vstack([correct, np.asarray(compute_area_weights(steps)) @ correct])  # the last one's mean is the area
    *found, area = (make_estimate(one, Bootstrap().confidence) for one in bootstrap_means(rows, Bootstrap()))
    return Curve(order, steps, tuple(found), tuple(probability.tolist()), area)
