"""The perturbation curve of any torch model: its accuracy as features are removed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from roarbench.api.inputs import check_labels, is_table, read_images, read_labels
from roarbench.api.prediction_checks import warn_if_at_chance
from roarbench.api.removal import RemovalSettings, leave_out_idle_levels, make_image_filler, mark_removed, rank_maps
from roarbench.api.single_steps import bootstrap_means
from roarbench.api.threaded_networks import compute_logits, refuse_nan_logits, split_into_batches
from roarbench.api.user_networks import borrow_networks, check_and_wrap_network
from roarbench.common.enums import PAPER_LEVELS
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate, make_estimate_over_images
from roarbench.stats.correctness_and_gain import compute_trapezoid_weights

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Curve:
    """Accuracy of a network by removal fraction.

    Attributes:
        order: `morf` or `lerf`.
        levels: Removal fractions, including 0.
        accuracy: In [0, 1], with 95 % intervals over the images; fewer than 10 images give no interval.
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
    """
    pixels = read_images(images)
    classes = read_labels(labels, len(pixels))
    removal = leave_out_idle_levels(RemovalSettings.read(order, levels), pixels, least_kept=0)
    fill_images = make_image_filler(pixels, fill)
    steps = (0.0, *removal.levels)
    ranked = rank_maps(pixels, maps)
    by_level = []
    with borrow_networks([model]):
        network = check_and_wrap_network(model, pixels)
        batches = split_into_batches(pixels, [network])
        for t in steps:
            mask = mark_removed(ranked, pixels.shape, t, order)
            by_level.append(torch.cat([compute_logits(network, fill_images(batch, mask[batch])) for batch in batches]))
    logits = torch.stack(by_level)  # (levels, n, classes)
    check_labels(classes, logits.shape[2])
    refuse_nan_logits(logits)
    correct = (logits.argmax(2) == torch.from_numpy(classes)).double().numpy()
    warn_if_at_chance(correct[0] == 1, classes, logits.shape[2], is_table(pixels))
    predicted = logits[0].argmax(1)
    probability = logits.softmax(2)[:, torch.arange(len(pixels)), predicted].mean(1)
    areas = np.asarray(compute_trapezoid_weights(steps)) @ correct  # area of each image
    rows = np.vstack([correct, areas])
    *accuracies, area = (make_estimate_over_images(row, len(pixels)) for row in bootstrap_means(rows, Bootstrap()))
    return Curve(order, steps, tuple(accuracies), tuple(probability.tolist()), area)
