"""Public functions for single steps of a suite, on arrays or tensors."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.api.inputs import read_real_number, read_whole_number, to_array, to_tensor, warn_caller
from roarbench.api.removal import (
    compute_image_seeds,
    flatten_maps,
    mark_removed,
    rank_maps,
    read_fill_name,
    read_fill_value,
    read_order,
    read_pixels,
    warn_if_mostly_tied,
)
from roarbench.common.enums import Order, Unit
from roarbench.common.errors import CallerError
from roarbench.common.text import format_count
from roarbench.compute import degrade as fills
from roarbench.compute import ranking
from roarbench.compute.degrade import degrade
from roarbench.compute.masks import assign_strata, make_matched_masks
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate, Sample, make_estimate_over_images
from roarbench.stats.resampling import draw_image_weights

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
    warn_if_mostly_tied(flat, ranked)
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
    strata = assign_strata(fills.compute_removal_magnitudes(pixels, replaced, Unit.SCALAR))
    own = mark_removed(rank_maps(pixels, maps), pixels.shape, t, order).flatten(1).numpy()
    ranks = rank_maps(pixels, others).argsort(1)
    d = ranks.shape[1]
    bins = (ranks * 256 // d).astype(np.uint8)
    ties = ranks if removal_order is Order.MORF else d - 1 - ranks
    masks = make_matched_masks(own, bins, strata, removal_order, ties)
    return torch.from_numpy(masks).view(pixels.shape)


def mix_maps(maps: Any, others: Any, share: float, seed: int = 0) -> Tensor:
    """Replace a known fraction of each map by the same squares of another image's map, made by the same estimator.

    A larger fraction leaves less information about the image, so a valid protocol ranks such a map lower (after
    F-Fidelity's test, Zheng et al. 2024, arXiv 2410.02970). Whole squares are exchanged, so maps stay about as smooth;
    the squares exchanged at a smaller fraction are also exchanged at every larger fraction.

    Args:
        maps: (n, c, h, w) or (n, h, w); larger is more important.
        others: For each map the map of another image, of the same shape. If a protocol itself uses another image's
            map, pass the map of a third image.
        share: Fraction of squares, in [0, 1].
        seed: Seed of the order of an image's squares; their side is the largest, up to 8 pixels, with which a map has
            at least 64 squares.

    Returns:
        float32 of the maps' shape. Values of different maps have no common scale, so each value is replaced by the
        fraction of the image's features with lower importance, in [0, 1). Ties stay ties.

    Raises:
        CallerError: The arguments do not fit together, or small maps would exchange no square or all.
    """
    own, other = to_tensor(maps, "maps"), to_tensor(others, "the others")
    if own.shape != other.shape or own.ndim not in (3, 4):
        seen = f"maps have shape {tuple(own.shape)}, other maps {tuple(other.shape)}"
        raise CallerError(f"{seen}; expected equal shapes, (n, c, h, w) or (n, h, w)")
    if not 0 <= (share := read_real_number(share, "share")) <= 1:
        raise CallerError(f"share is {share}, expected a fraction in [0, 1]")
    exchanged = _draw_squares(len(own), own.shape[-2], own.shape[-1], share, read_whole_number(seed, "seed"))
    exchanged = exchanged if own.ndim == 3 else exchanged[:, None]
    return torch.where(exchanged, _compute_rank_fractions(other), _compute_rank_fractions(own))


def _choose_square(height: int, width: int) -> int:
    sides = range(_LARGEST_SQUARE, 0, -1)
    return next((side for side in sides if -(-height // side) * -(-width // side) >= _FEWEST_SQUARES), 1)


def _draw_squares(n: int, height: int, width: int, share: float, seed: int) -> Tensor:
    """Draw a fraction of the squares of each image, bool (n, height, width)."""
    square = _choose_square(height, width)
    rows, columns = -(-height // square), -(-width // square)
    squares = rows * columns
    count = round(share * squares)
    if 0 < share < 1 and count in (0, squares):
        seen = f"maps of {height} x {width} pixels have {format_count(squares, 'square')} of side {square}"
        raise CallerError(f"{seen}, so a share of {share:g} exchanges {count}; pass larger maps")
    drawn = torch.rand((n, squares), generator=torch.Generator().manual_seed(seed))
    exchanged = (drawn.argsort(1).argsort(1) < count).view(n, rows, columns)
    return exchanged.repeat_interleave(square, 1).repeat_interleave(square, 2)[:, :height, :width]


def _compute_rank_fractions(maps: Tensor) -> Tensor:
    flat = maps.float().flatten(1).contiguous()
    below = torch.searchsorted(flat.sort(1).values, flat)
    return (below / flat.shape[1]).view(maps.shape)


def bootstrap(correct: Any, other: Any = None) -> Estimate:
    """Estimate a mean over images with its 95 % interval, or a paired mean difference.

    Args:
        correct: (n,) for n images or (seeds, n), bool or numbers; more seeds than images cause a warning.
        other: Values of the same shape, which are subtracted image by image.

    Returns:
        Value, low and high; images are drawn with replacement, and values are averaged over seeds. Fewer than 10 images
        give no interval.

    Raises:
        CallerError: The values are no finite numbers of shape (n,) or (seeds, n), or are a column, (n, 1).
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
    (mean,) = bootstrap_means((values - subtracted).mean(0)[None], Bootstrap())
    return make_estimate_over_images(mean, images)


def bootstrap_means(values: NDArray[np.float64], bootstrap_settings: Bootstrap) -> list[Sample]:
    """Return the mean of each row of `values`, (rows, images); each draw resamples the same images for all rows."""
    images = values.shape[1]
    draws = np.concatenate([weights @ values.T / images for weights in draw_image_weights(images, bootstrap_settings)])
    return [Sample(float(row.mean()), draws[:, number]) for number, row in enumerate(values)]


def _read_uint8_images(images: Any) -> Tensor:
    if (seen := to_tensor(images, "images").dtype) != torch.uint8:
        raise CallerError(f"images are {seen}, expected uint8 in 0 … 255")
    return read_pixels(images).byte()
