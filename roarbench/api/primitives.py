"""Public functions on arrays or tensors: single steps of a suite, and the perturbation curve of any torch model."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.batched_inference import compute_logits, split_into_batches
from roarbench.api.chance_warning import warn_if_at_chance
from roarbench.api.inputs import check_labels, is_table, read_images, read_labels, to_array, to_tensor
from roarbench.api.ranking_and_removal import (
    RemovalSettings,
    compute_image_seeds,
    flatten_maps,
    leave_out_idle_levels,
    make_image_filler,
    mark_removed,
    rank_maps,
    read_fill_name,
    read_fill_value,
    read_order,
    read_pixels,
    read_real_number,
    read_whole_number,
    warn_if_mostly_tied,
)
from roarbench.api.user_networks import borrow_networks, check_and_wrap_network
from roarbench.common.enums import PAPER_LEVELS, Order, Unit
from roarbench.common.errors import CallerError
from roarbench.common.text import format_count, name_item
from roarbench.compute import degrade as fills
from roarbench.compute import magnitude_matched_masks, ranking
from roarbench.compute.degrade import degrade
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate, Sample, make_estimate_over_images
from roarbench.stats.correctness_and_gain import compute_trapezoid_weights
from roarbench.stats.resampling import draw_image_weights

if TYPE_CHECKING:
    import pandas

_LARGEST_SQUARE = 8  # pixels, side of the squares that `mix_maps` exchanges
_FEWEST_SQUARES = 64  # per map; the share of exchanged squares is then precise to 1 / 128


def rank(maps: Any, shape: tuple[int, int, int] | None = None, seed: int = 0) -> NDArray[np.int64]:
    """Rank the features of each image, most important first, with ties in random order per image.

    Args:
        maps: (n, c, h, w), (n, 1, h, w) or (n, h, w), finite.
        shape: Channels, height and width of an image; taken from the maps if None.
        seed: Seed of the order of ties.

    Returns:
        int64 (n, c * h * w), indices into each flattened image.

    Raises:
        CallerError: A value is not finite, or the maps have another shape.
    """
    if shape is not None and not (isinstance(shape, tuple | list) and [*map(type, shape)] == [int] * 3):
        raise CallerError(f"shape is {shape!r}, expected (c, h, w), three whole numbers")
    flat = flatten_maps(maps, shape)
    ties = ranking.draw_tie_order(np.arange(len(flat)), flat.shape[1], read_whole_number(seed, "seed"))
    ranked = ranking.rank(flat, ties)
    warn_if_mostly_tied(flat, ranked, stacklevel=3)
    return ranked.copy()


def remove(images: Any, maps: Any, t: float, order: str = "morf", fill: Any = None) -> Tensor:
    """Replace the fraction t of each image's features that a map ranks first, or last.

    Args:
        images: (n, c, h, w), any range.
        maps: (n, c, h, w), (n, 1, h, w) or (n, h, w); larger is more important.
        t: Removal fraction, in [0, 1].
        order: `morf` removes the most important features, `lerf` the least important.
        fill: Fill value (c,), on the scale of the images; the mean of these images' channels if None.

    Returns:
        float32 (n, c, h, w), a new tensor; values of features that are not removed stay exactly equal.
    """
    pixels = read_pixels(images)
    return degrade(pixels, mark_removed(rank_maps(pixels, maps), pixels.shape, t, order), read_fill_value(pixels, fill))


def fill(images: Any, removed: Any, by: str = "linear", mean: Any = None) -> Tensor:
    """Replace removed features by one of the fills of suites.

    Args:
        images: uint8 (n, c, h, w).
        removed: bool (n, c, h, w) or (n, 1, h, w), True where removed.
        by: `mean`, `black`, `blur`, `noise`, `linear` (the interpolation of ROAD, Rong et al. 2022) or `neighbours`.
        mean: Value of each channel (c,), in [0, 255], for `mean` and for channels without kept values; the mean of
            these images if None.

    Returns:
        float32 (n, c, h, w), in [0, 255].
    """
    pixels, mask = _read_uint8_images(images), to_tensor(removed, "the mask")
    by = read_fill_name(by, pixels)
    n, c, h, w = pixels.shape
    if mask.shape not in ((n, c, h, w), (n, 1, h, w)) or not bool(((mask == 0) | (mask == 1)).all()):
        seen = f"the mask has shape {tuple(mask.shape)} and type {mask.dtype}".replace("torch.", "")
        raise CallerError(f"{seen}; expected bool {(n, c, h, w)} or {(n, 1, h, w)}, True where removed")
    value, seeds = read_fill_value(pixels, mean), compute_image_seeds(pixels)
    return fills.replace_features(pixels, mask.bool(), by, value, seeds)


def match_masks(images: Any, maps: Any, others: Any, t: float, order: str = "morf", fill: Any = None) -> Tensor:
    """Make masks that follow another image's map and remove as many features of each stratum as the image's own mask.

    Args:
        images: uint8 (n, c, h, w).
        maps: Each image's own map, (n, c, h, w), (n, 1, h, w) or (n, h, w).
        others: For each image the map of another image, of the same shape.
        t: Removal fraction, in [0, 1].
        order: `morf` or `lerf`.
        fill: Fill value (c,), in [0, 255]; the mean of these images' channels if None.

    Returns:
        bool (n, c, h, w), True where removed: in each of the 64 strata as many features as in the own mask.
    """
    pixels, removal_order = _read_uint8_images(images), read_order(order)
    replaced = read_fill_value(pixels, fill)[:, None, None].expand(pixels.shape)
    strata = magnitude_matched_masks.assign_strata(fills.compute_removal_magnitudes(pixels, replaced, Unit.SCALAR))
    own = mark_removed(rank_maps(pixels, maps), pixels.shape, t, order).flatten(1).numpy()
    ranks = rank_maps(pixels, others).argsort(1)
    d = ranks.shape[1]
    bins = (ranks * 256 // d).astype(np.uint8)
    ties = ranks if removal_order is Order.MORF else d - 1 - ranks
    masks = magnitude_matched_masks.make_other_image_masks(own, bins, strata, removal_order, ties)
    return torch.from_numpy(masks).view(pixels.shape)


def mix_maps(maps: Any, others: Any, share: float, square: int | None = None, seed: int = 0) -> Tensor:
    """Replace a known fraction of each map by the same squares of another image's map, made by the same estimator.

    A larger fraction leaves less information about the image, so a valid protocol ranks such a map lower (after
    F-Fidelity's test, Zheng et al. 2024, arXiv 2410.02970). Whole squares are exchanged, so maps stay about as smooth;
    the squares exchanged at a smaller fraction are also exchanged at every larger fraction.

    Args:
        maps: (n, c, h, w) or (n, h, w); larger is more important.
        others: For each map the map of another image, of the same shape. If a protocol itself uses another image's
            map, pass the map of a third image.
        share: Fraction of squares, in [0, 1].
        square: Side of a square in pixels; if None, the largest side up to 8 with at least 64 squares per map, or 1.
        seed: Seed of the order of an image's squares.

    Returns:
        float32 of the maps' shape. Values of different maps have no common scale, so each value is replaced by the
        fraction of the image's features with lower importance, in [0, 1). Ties stay ties.

    Raises:
        CallerError: The arguments do not fit together, or so few squares would mix no squares or all.
    """
    own, other = to_tensor(maps, "maps"), to_tensor(others, "the others")
    if own.shape != other.shape or own.ndim not in (3, 4):
        seen = f"maps have shape {tuple(own.shape)}, other maps {tuple(other.shape)}"
        raise CallerError(f"{seen}; expected equal shapes, (n, c, h, w) or (n, h, w)")
    if not 0 <= (share := read_real_number(share, "share")) <= 1:
        raise CallerError(f"share is {share}, expected a fraction in [0, 1]")
    side = _choose_square(*own.shape[-2:]) if square is None else read_whole_number(square, "square", 1)
    exchanged = _draw_squares(len(own), own.shape[-2], own.shape[-1], share, side, read_whole_number(seed, "seed"))
    exchanged = exchanged if own.ndim == 3 else exchanged[:, None]
    return torch.where(exchanged, _compute_rank_fractions(other), _compute_rank_fractions(own))


def _choose_square(height: int, width: int) -> int:
    """Return the largest side up to 8 with which a map has at least 64 squares, so that shares are precise; else 1."""
    sides = range(_LARGEST_SQUARE, 0, -1)
    return next((side for side in sides if -(-height // side) * -(-width // side) >= _FEWEST_SQUARES), 1)


def _draw_squares(n: int, height: int, width: int, share: float, square: int, seed: int) -> Tensor:
    """Draw a fraction of the squares of each image, bool (n, height, width)."""
    rows, columns = -(-height // square), -(-width // square)
    squares = rows * columns
    count = round(share * squares)
    if 0 < share < 1 and count in (0, squares):
        seen = f"maps of {height} x {width} pixels have {format_count(squares, 'square')} of side {square}"
        raise CallerError(f"{seen}, so a share of {share:g} exchanges {count}; pass a smaller square, or larger maps")
    drawn = torch.rand((n, squares), generator=torch.Generator().manual_seed(seed))
    exchanged = (drawn.argsort(1).argsort(1) < count).view(n, rows, columns)
    return exchanged.repeat_interleave(square, 1).repeat_interleave(square, 2)[:, :height, :width]


def _compute_rank_fractions(maps: Tensor) -> Tensor:
    flat = maps.float().flatten(1).contiguous()
    below = torch.searchsorted(flat.sort(1).values, flat)
    return (below / flat.shape[1]).view(maps.shape)


def bootstrap(correct: Any, other: Any = None, bootstrap: Bootstrap | None = None) -> Estimate:
    """Estimate a mean over images with its interval, or a paired mean difference.

    Args:
        correct: (n,) for n images or (seeds, n), bool or numbers; more seeds than images cause a warning.
        other: Values of the same shape, which are subtracted image by image.
        bootstrap: Number of resamples, seed and confidence; 2,000, 0 and 95 % if None.

    Returns:
        Value, low and high; images are drawn with replacement, and values are averaged over seeds. Fewer than 10 images
        give no interval.

    Raises:
        CallerError: The values are no finite numbers of shape (n,) or (seeds, n), or are a column, (n, 1).
    """
    bootstrap_settings = Bootstrap() if bootstrap is None else bootstrap
    if not isinstance(bootstrap_settings, Bootstrap):
        raise CallerError(
            f"bootstrap is {bootstrap!r}, expected a roarbench.stats.bootstrap_intervals.Bootstrap, or None"
        )
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
        warnings.warn(f"{seen}; write values.T if each row is an image", stacklevel=2)
    (mean,) = bootstrap_means((values - subtracted).mean(0)[None], bootstrap_settings)
    return make_estimate_over_images(mean, images, bootstrap_settings.confidence)


def bootstrap_means(values: NDArray[np.float64], bootstrap_settings: Bootstrap) -> list[Sample]:
    """Return the mean of each row of `values`, (rows, images); each draw resamples the same images for all rows."""
    images = values.shape[1]
    draws = np.concatenate([weights @ values.T / images for weights in draw_image_weights(images, bootstrap_settings)])
    return [Sample(float(row.mean()), draws[:, number]) for number, row in enumerate(values)]


def _read_uint8_images(images: Any) -> Tensor:
    if (seen := to_tensor(images, "images").dtype) != torch.uint8:
        raise CallerError(f"images are {seen}, expected uint8 in 0 … 255")
    return read_pixels(images).byte()


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
    seed: int = 0,
) -> Curve:
    """Measure a network's accuracy as the features that maps rank first, or last, are removed.

    Nothing is trained, so the curve also reflects how the network reacts to images unlike its training images. Of 20
    images or more, a warning says if the network is not significantly better than chance.

    Args:
        model: Any network that returns logits, or one logit z of a binary network whose class 1 has probability
            sigmoid(z). It is used in eval mode; afterwards its mode is restored.
        images: Floats (n, c, h, w), normalised as for the network.
        labels: Integers (n,), the true classes, from 0; bool only for two classes.
        maps: (n, c, h, w), (n, 1, h, w) or (n, h, w); larger is more important.
        order: `morf` removes the most important features first, `lerf` the least important.
        levels: Removal fractions, ascending in (0, 1]; those that remove no feature are left out, with a warning.
        fill: Fill value (c,), on the scale of the images; the mean of these images' channels if None; or the name of a
            suite's fill, such as `linear` (ROAD's) or `black` (here the smallest value of each channel).
        seed: Seed of the order of tied features; the order depends on the image's content, not on its position.

    Raises:
        CallerError: The arguments do not fit together, or the network's logits depend on more than the image.
    """
    pixels = read_images(images)
    classes = read_labels(labels, len(pixels))
    removal = leave_out_idle_levels(RemovalSettings.read(order, levels), pixels, least_kept=0)
    fill_images = make_image_filler(pixels, fill)
    steps = (0.0, *removal.levels)
    ranked = rank_maps(pixels, maps, read_whole_number(seed, "seed"))
    by_level = []
    with borrow_networks([model]):
        network = check_and_wrap_network(model, pixels)
        batches = split_into_batches(pixels, [network])
        for t in steps:
            mask = mark_removed(ranked, pixels.shape, t, order)
            by_level.append(torch.cat([compute_logits(network, fill_images(batch, mask[batch])) for batch in batches]))
    logits = torch.stack(by_level)  # (levels, n, classes)
    check_labels(classes, logits.shape[2], given=labels)
    if logits.isnan().any():
        t = steps[int(logits.isnan().flatten(1).any(1).int().argmax())]
        raise CallerError(f"the network returns logits that are NaN if the fraction {t:g} of an image is removed")
    correct = (logits.argmax(2) == torch.from_numpy(classes)).double().numpy()
    warn_if_at_chance(correct[0] == 1, classes, logits.shape[2], name_item(is_table(pixels)))
    predicted = logits[0].argmax(1)
    probability = logits.softmax(2)[:, torch.arange(len(pixels)), predicted].mean(1)
    areas = np.asarray(compute_trapezoid_weights(steps)) @ correct  # area of each image
    rows = np.vstack([correct, areas])
    *accuracies, area = (make_estimate_over_images(row, len(pixels)) for row in bootstrap_means(rows, Bootstrap()))
    return Curve(order, steps, tuple(accuracies), tuple(probability.tolist()), area)
