"""Measure a network's accuracy as features are removed, and means over images, without training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from roarbench.api.array_checks import warn_of_misplaced_maps
from roarbench.api.explainers import split_into_batches
from roarbench.api.inputs import check_labels, read_images, read_labels, to_array, warn_caller
from roarbench.api.neutral_settings import use_neutral_settings
from roarbench.api.removal import make_image_filler, mark_removed, rank_maps, read_levels, read_order, to_map_tensor
from roarbench.api.score_maps import ThreadedNetworks, compute_logits, refuse_nan_logits
from roarbench.api.sibling_checks import describe_reversed_channels, warn_of_unfit_siblings
from roarbench.api.user_networks import (
    borrow_networks,
    check_and_wrap_network,
    warn_if_at_chance,
    warn_of_training_mode,
)
from roarbench.common.enums import PAPER_LEVELS
from roarbench.common.errors import CallerError
from roarbench.stats.contrasts import measure_means
from roarbench.stats.correctness_and_gain import compute_trapezoid_weights
from roarbench.stats.intervals import Estimate, estimate, estimate_shares

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Curve:
    """Accuracy of a network by removal fraction.

    Attributes:
        order: `morf` or `lerf`.
        levels: Removal fractions, including 0.
        accuracy: In [0, 1], with 95 % intervals over the images.
        probability: Mean softmax probability of the class predicted on the untouched image, in [0, 1]; wrong if the
            network returns probabilities instead of logits, which causes a warning.
        area: Mean accuracy over the levels by the trapezoid rule, with its interval.
    """

    order: str
    levels: tuple[float, ...]
    accuracy: tuple[Estimate, ...]
    probability: tuple[float, ...]
    area: Estimate

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per level."""
        import pandas

        rows = zip(self.levels, *zip(*self.accuracy, strict=True), self.probability, strict=True)
        frame = pandas.DataFrame(rows, columns=["t", "accuracy", "low", "high", "probability"])
        frame.attrs["order"] = self.order
        return frame


@use_neutral_settings
def perturbation_curve(
    model: nn.Module,
    images: Any,
    labels: Any,
    maps: Any,
    order: str = "morf",
    levels: Sequence[float] = PAPER_LEVELS,
    fill: Any = None,
) -> Curve:
    """Measure a network's accuracy as the features that maps rank first, or last, are removed.

    Nothing is trained, so the curve also reflects how the network reacts to images unlike its training images. Of 20
    images or more, a warning says if the network is not significantly better than chance.

    Args:
        model: Any network that returns logits, or one logit z of a binary network whose class 1 has probability
            sigmoid(z). It is used in eval mode; afterwards its mode is restored.
        images: Floats (n, c, h, w), normalised as for the network.
        labels: Integers (n,), the true classes, from 0.
        maps: (n, c, h, w), (n, 1, h, w) or (n, h, w); larger is more important.
        order: `morf` removes the most important features first, `lerf` the least important.
        levels: Removal fractions, ascending in (0, 1]; those that remove no feature are left out, with a warning.
        fill: Fill value (c,), on the scale of the images; the mean of these images' channels if None; or the name of a
            suite's fill, such as `linear` (ROAD's) or `black` (here the smallest value of each channel).

    Raises:
        CallerError: The arguments do not fit together, or the network's logits depend on more than the image.

    Examples:
        >>> labels = torch.arange(60) % 2
        >>> images = torch.rand(60, 1, 2, 2, generator=torch.Generator().manual_seed(0)) + labels[:, None, None, None]
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))  # class 1 if the first pixel is above 1
        >>> weights = torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
        >>> _ = model.load_state_dict({"1.weight": weights, "1.bias": torch.tensor([1.0, 0.0])})
        >>> maps = torch.tensor([[[4.0, 3.0], [2.0, 1.0]]]).expand(60, 2, 2)
        >>> curve = perturbation_curve(model, images, labels, maps, levels=[0.25, 0.5])
        >>> [round(accuracy.value, 2) for accuracy in curve.accuracy]
        [1.0, 0.5, 0.5]
    """
    pixels = read_images(images)
    classes = read_labels(labels, len(pixels))
    end, steps = read_order(order), (0.0, *read_levels(levels, pixels, least_kept=0))
    fill_images = make_image_filler(pixels, fill)
    ranked = rank_maps(pixels, maps)
    by_level = []
    warn_of_training_mode([model])
    with borrow_networks([model]):
        network = check_and_wrap_network(model, pixels)
        batches = split_into_batches(pixels, [network])
        for t in steps:
            mask = mark_removed(ranked, pixels.shape, t, end)
            by_level.append(torch.cat([compute_logits(network, fill_images(batch, mask[batch])) for batch in batches]))
        warn_of_misplaced_maps({"maps": [to_map_tensor(maps)]}, [(network, pixels)])
        right = by_level[0].argmax(1).numpy() == classes
        for line in describe_reversed_channels(network, pixels, classes, right):
            warn_caller(line)
        ThreadedNetworks([[network]]).refuse_changed_logits(pixels, by_level[:1])
    logits = torch.stack(by_level)  # (levels, n, classes)
    check_labels(classes, logits.shape[2])
    refuse_nan_logits(logits)
    correct = (logits.argmax(2) == torch.from_numpy(classes)).double().numpy()
    warn_if_at_chance(correct[0] == 1, classes, logits.shape[2])
    warn_of_unfit_siblings([model], [logits[0]], classes)
    predicted = logits[0].argmax(1)
    probability = logits.softmax(2)[:, torch.arange(len(pixels)), predicted].mean(1)
    areas = np.asarray(compute_trapezoid_weights(steps)) @ correct  # area of each image
    rows = np.vstack([correct, areas])
    *accuracies, area = estimate_shares(dict(enumerate(measure_means(rows)))).values()
    return Curve(order, steps, tuple(accuracies), tuple(probability.tolist()), area)


def estimate_mean(correct: Any, other: Any = None) -> Estimate:
    """Estimate a mean over images with its 95 % interval, or a paired mean difference.

    Args:
        correct: (n,) for n images or (seeds, n), bool or numbers; more seeds than images cause a warning.
        other: Values of the same shape, which are subtracted image by image.

    Returns:
        Value, low and high for other images of the same kind; values are averaged over seeds. If all values are 0 or 1
        and `other` is None, the interval is inside [0, 1]; otherwise, equal values give no interval.

    Raises:
        CallerError: The values are no finite numbers of shape (n,) or (seeds, n), or are a column, (n, 1).

    Examples:
        >>> correct = torch.arange(100) % 4 != 0
        >>> value, low, high = estimate_mean(correct)
        >>> value, low < 0.75 < high
        (0.75, True)
        >>> estimate_mean(correct, correct)
        Estimate(value=0.0, low=None, high=None)
    """
    values = np.atleast_2d(to_array(correct)).astype(np.float64)
    subtracted = np.zeros_like(values) if other is None else np.atleast_2d(to_array(other)).astype(np.float64)
    if not values.size or not np.isfinite(values).all() or not np.isfinite(subtracted).all():
        raise CallerError(f"values of shape {values.shape} are none or hold NaN; expected one or more finite numbers")
    if values.shape != subtracted.shape:
        seen = f"values have shapes {values.shape} and {subtracted.shape}"
        raise CallerError(f"{seen}; expected equal shapes, (n,) or (seeds, n)")
    if values.ndim > 2 or values.shape[1] == 1 < len(values):
        remedy = "; for one column write values[:, 0]" if values.ndim == 2 else ""
        raise CallerError(f"values have shape {values.shape}, expected (n,) or (seeds, n){remedy}")
    seeds, images = values.shape
    if seeds > images:
        seen = f"values of shape {values.shape} are read as {seeds} seeds of {images} images"
        warn_caller(f"{seen}; write values.T if each row is an image")
    (mean,) = measure_means((values - subtracted).mean(0)[None])
    if other is None and np.isin(values, (0, 1)).all():
        return estimate_shares({"": mean})[""]
    return estimate(mean)
