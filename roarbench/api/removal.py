"""Rank features by importance maps, and remove features from images; the public single steps of a suite."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.analysis.suite_judges import TIED
from roarbench.api import inputs
from roarbench.api.neutral_settings import use_neutral_settings
from roarbench.common.enums import Order, Unit
from roarbench.common.errors import CallerError, RunError, UnknownName
from roarbench.common.text import fit_on_one_line
from roarbench.compute import ranking
from roarbench.compute.degraded_images import apply_non_mean_fill, degrade, replace_features
from roarbench.compute.map_ranking import compute_largest_tie_shares, flatten_importance
from roarbench.plan.suite import find_recorded_fill_name, refuse_impossible_for_table

_UNSORTABLE = (np.longdouble, np.uint16, np.uint32, np.uint64)  # torch has few functions for these types, or none
_FAR = 3  # times the largest absolute value of the images; a fill farther outside their range causes a warning

FillFunction = Callable[[slice | Tensor, Tensor], Tensor]  # row indices and removal masks -> degraded images


def read_levels(levels: Any, pixels: Tensor, least_kept: int = 1) -> tuple[float, ...]:
    """Read a caller's levels; CallerError for a level outside (0, 1], and if no level is left.

    Levels that remove no feature, or keep fewer than `least_kept`, are left out, and a warning names them: at such a
    level all maps have the same effect, so their gains are 0.
    """
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise CallerError(f"levels are {levels!r}, expected a sequence of fractions; write levels=(0.3,)")
    steps, features = tuple(map(inputs.read_real_number, levels)), math.prod(pixels.shape[1:])
    if not steps or list(steps) != sorted(set(steps)) or not all(0 < t <= 1 for t in steps):
        raise CallerError(f"levels are {tuple(levels)}, expected ascending fractions in (0, 1]; write 0.3 for 30 %")
    counts = {t: ranking.count_removed(t, features) for t in steps}
    steps = tuple(t for t, count in counts.items() if 1 <= count <= features - least_kept)
    seen = ", ".join(f"{t:g} removes {count} of {features} features" for t, count in counts.items() if t not in steps)
    if not steps:
        raise CallerError(f"no level removes some of the features: {seen}")
    if seen:
        inputs.warn_caller(f"levels are left out: {seen}")
    return steps


def read_order(name: str) -> Order:
    """Return the order with this name; UnknownName if there is none."""
    if name not in list(Order):
        raise UnknownName("order", name, Order)
    return Order(name)


def read_pixels(images: Any) -> Tensor:
    """Convert images to a float32 tensor (n, c, h, w)."""
    pixels = inputs.to_tensor(images, "images").float()
    if pixels.ndim != 4:
        raise CallerError(f"images have shape {tuple(pixels.shape)}, expected {inputs.IMAGE_SHAPE}")
    return pixels


def read_fill_value(pixels: Tensor, fill: Any) -> Tensor:
    """Convert a fill value to float32 (c,); None stands for the mean of these images' channels.

    A value far outside the images' values, such as 127 for normalised images, causes a warning.
    """
    expected = f"expected {pixels.shape[1]} finite numbers, one per channel"
    if isinstance(fill, str):
        raise CallerError(f"fill is '{fill}', {expected}, or None for the mean")
    value = pixels.float().mean((0, 2, 3)) if fill is None else inputs.to_tensor(fill, "the fill").float()
    if value.shape != pixels.shape[1:2] or not value.isfinite().all():
        seen = "the mean of the images" if fill is None else "fill"
        raise CallerError(f"{seen} is {fit_on_one_line(str(value.tolist()), 60)}, {expected}")
    low, high, largest = pixels.float().amin((0, 2, 3)), pixels.float().amax((0, 2, 3)), pixels.float().abs().max()
    far = (value < low - _FAR * largest) | (value > high + _FAR * largest)
    if far.any() and largest > 0:
        channel = int(far.int().argmax())
        seen = f"the fill {value[channel]:g} of channel {channel} is far outside the images' values"
        inputs.warn_caller(f"{seen}, {low[channel]:.3g} to {high[channel]:.3g}; pass a fill on the scale of the images")
    return value


def read_fill_name(name: str, pixels: Tensor) -> str:
    """Return the records' name of a fill; CallerError if there is no such fill, or if it is impossible for a table."""
    fill = find_recorded_fill_name(name)
    if inputs.is_table(pixels):
        refuse_impossible_for_table(fill)
    return fill


def compute_image_seeds(pixels: Tensor) -> Tensor:
    """Return a seed for each image, a hash of its content, int64 (n,), at least 0."""
    hashes = (hashlib.sha256(image.numpy().tobytes()).digest()[:8] for image in pixels.contiguous())
    return torch.tensor([int.from_bytes(digest, "big") >> 1 for digest in hashes])


def drop_channel_axis(maps: NDArray[Any]) -> NDArray[Any]:
    """Return maps of shape (n, 1, h, w) in shape (n, h, w), and all other maps unchanged."""
    return maps[:, 0] if maps.ndim == 4 and maps.shape[1] == 1 else maps


def flatten_maps(maps: Any, shape: tuple[int, ...] | None = None, subject: str = "maps") -> NDArray[np.float32]:
    """Compute each feature's importance, float32 (n, d), for images of this shape, (n, c, h, w) or (c, h, w).

    Numbers that float32 cannot represent keep their order, but not their values. The images' shape is taken from the
    maps if None.
    """
    array = inputs.to_array(maps, subject)
    if array.ndim and shape:
        check_map_shape(subject, array.shape, shape if len(shape) == 4 else (len(array), *shape))
    elif array.ndim not in (3, 4) or not array.size:
        raise CallerError(f"maps have shape {array.shape}, expected (n, c, h, w), (n, 1, h, w) or (n, h, w)")
    array = drop_channel_axis(array)
    c, h, w = shape[-3:] if shape else (array.shape[1] if array.ndim == 4 else 1, *array.shape[-2:])
    with _reraise_as_caller_error(f"{subject}: "):
        return flatten_importance(to_map_tensor(array), (c, h, w), Unit.SCALAR).numpy()


def to_map_tensor(maps: Any, subject: str = "maps") -> Tensor:
    """Convert maps to a tensor on the CPU; maps of a type that torch cannot sort become float32 in the same order."""
    array = inputs.to_array(maps, subject)
    if array.dtype.type in _UNSORTABLE and array.size:
        array = ranking.keep_order_in_float32(array.reshape(len(array), -1)).reshape(array.shape)
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def check_map_shape(subject: str, maps: tuple[int, ...], images: tuple[int, ...]) -> None:
    """Raise CallerError for maps whose shape does not fit images of shape (n, c, h, w)."""
    n, c, h, w = images
    expected = dict.fromkeys([images, (n, 1, h, w), (n, h, w)])
    if maps not in expected:
        remedy = "; write .permute(0, 3, 1, 2)" if maps in ((n, h, w, c), (n, h, w, 1)) else ""
        raise CallerError(f"{subject} have shape {maps}, expected {' or '.join(map(str, expected))}{remedy}")


def rank_maps(pixels: Tensor, maps: Any) -> NDArray[np.int64]:
    """Return each image's feature indices, most important first, int64 (n, d); CallerError if the maps do not fit.

    The order of tied features is drawn from the image's content, so it does not depend on the image's position in the
    array. Maps in which most features are tied cause a warning.
    """
    flat = flatten_maps(maps, tuple(pixels.shape))
    inputs.warn_of_byte_values("maps", inputs.to_array(maps))  # a map of all channels is in `flat` for each
    warn_of_one_map("maps", maps)
    return _rank_rows(flat, compute_image_seeds(pixels).numpy(), seed=0)


def _rank_rows(flat: NDArray[np.float32], ids: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Rank the features of each row of (n, d), with ties in an order drawn by seed and id; warn of many ties."""
    ranked = ranking.rank(flat, ranking.draw_tie_order(ids, flat.shape[1], seed))
    shares = compute_largest_tie_shares(torch.from_numpy(np.take_along_axis(flat, ranked, 1)))
    if shares.mean() > TIED and flat.shape[1] > 1:
        warn_of_ties(f"the maps ({shares.mean():.0%})")
    elif flat.shape[1] > 1:
        warn_of_constant_maps("maps", shares.tolist())
    return ranked


def warn_of_ties(maps: str) -> None:
    """Warn that most features in `maps` are ranked at random."""
    subject = f"more than {TIED:.0%} of the features in {maps} have the same value"
    inputs.warn_caller(f"{subject}; equal values are ranked at random")


def warn_of_constant_maps(title: str, tied: Sequence[float]) -> None:
    """Warn of single maps in which all features are tied; `tied` are the shares of equal features."""
    if constant := tied.count(1.0):
        seen = f"{constant} of {len(tied)} {title} have the same value everywhere, so features are ranked at random"
        inputs.warn_caller(f"{seen}; leave these images out, or correct the maps")


def warn_of_one_map(title: str, maps: Any) -> None:
    """Warn if all maps (n, …) are one map, unless it was repeated without copies, as by `expand`."""
    array = inputs.to_array(maps)
    stride = maps.stride()[0] if isinstance(maps, Tensor) else getattr(maps, "strides", (1,))[0]
    if len(array) > 1 and stride and (array == array[0]).all() and (array != array.flat[0]).any():
        seen = f"all {len(array)} {title} are equal, as if one array had been filled for each image in turn"
        inputs.warn_caller(f"{seen}; keep copies, or pass one map by torch.expand or numpy.broadcast_to")


def mark_removed(ranked: NDArray[np.int64], shape: tuple[int, ...], t: Any, order: str) -> Tensor:
    """Mark the features that are removed at level t, bool (n, c, h, w), in images of `shape` (…, c, h, w).

    `ranked` has each image's features, most important first, (n, d).
    """
    with _reraise_as_caller_error():
        count = ranking.count_removed(inputs.read_real_number(t), ranked.shape[1])
    removed = ranked[:, :count] if read_order(order) is Order.MORF else ranked[:, ranked.shape[1] - count :]
    mask = np.zeros(ranked.shape, np.bool_)
    np.put_along_axis(mask, removed, True, 1)
    return torch.from_numpy(mask).view(len(ranked), *shape[-3:])


@contextmanager
def _reraise_as_caller_error(subject: str = "") -> Iterator[None]:
    """Raise CallerError in place of errors of the ranking functions, because the caller chose maps and level."""
    try:
        yield
    except (RunError, ValueError) as error:
        raise CallerError(f"{subject}{error}") from None


def make_value_filler(pixels: Tensor, fill: Any) -> FillFunction:
    """Return a function as `make_image_filler` does, for a fill value (c,) or None; CallerError for a fill's name."""
    value = read_fill_value(pixels, fill)
    return lambda rows, removed: degrade(pixels[rows], removed, value)


def make_image_filler(pixels: Tensor, fill: Any) -> FillFunction:
    """Return a function of (rows, removed) that returns the images `rows` with their removed features filled."""
    if not isinstance(fill, str) or fill == "mean":
        return make_value_filler(pixels, None if isinstance(fill, str) else fill)
    fill = read_fill_name(fill, pixels)
    low, high = value_range = inputs.find_channel_ranges_without_outliers(pixels.numpy())
    quantized, seeds = torch.from_numpy(inputs.quantize(pixels.numpy(), value_range)), compute_image_seeds(pixels)
    mean = quantized.float().mean((0, 2, 3))
    start, step = (torch.from_numpy(per_channel).float()[:, None, None] for per_channel in (low, (high - low) / 255))

    def fill_images(rows: slice | Tensor, removed: Tensor) -> Tensor:
        values = apply_non_mean_fill(quantized[rows], removed, fill, mean, seeds[rows])
        return torch.where(removed, values * step + start, pixels[rows])

    return fill_images


@use_neutral_settings
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

    Examples:
        >>> import torch
        >>> rank(torch.tensor([[[4.0, 3.0], [1.0, 2.0]]]))
        array([[0, 1, 3, 2]])
    """
    if shape is not None and not (isinstance(shape, tuple | list) and [*map(type, shape)] == [int] * 3):
        raise CallerError(f"shape is {shape!r}, expected (c, h, w), three whole numbers")
    flat = flatten_maps(maps, shape)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise CallerError(f"seed is {seed!r}, expected a whole number from 0")
    return _rank_rows(flat, np.arange(len(flat)), int(seed)).copy()


@use_neutral_settings
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

    Examples:
        >>> images = torch.tensor([[[[10.0, 20.0], [30.0, 40.0]]]])
        >>> maps = torch.tensor([[[4.0, 3.0], [1.0, 2.0]]])
        >>> remove(images, maps, 0.5, fill=[0.0]).tolist()
        [[[[0.0, 0.0], [30.0, 40.0]]]]
        >>> remove(images, maps, 0.5, order="lerf").tolist()  # the mean of the images is 25
        [[[[10.0, 20.0], [25.0, 25.0]]]]
    """
    pixels = read_pixels(images)
    return degrade(pixels, mark_removed(rank_maps(pixels, maps), pixels.shape, t, order), read_fill_value(pixels, fill))


@use_neutral_settings
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

    Examples:
        >>> images = torch.tensor([[[[10, 20], [30, 40]]]], dtype=torch.uint8)
        >>> removed = torch.tensor([[[[True, False], [False, False]]]])
        >>> fill(images, removed, "neighbours").tolist()
        [[[[30.0, 20.0], [30.0, 40.0]]]]
    """
    if (seen := inputs.to_tensor(images, "images").dtype) != torch.uint8:
        raise CallerError(f"images are {seen}, expected uint8 in 0 … 255")
    pixels, mask = read_pixels(images).byte(), inputs.to_tensor(removed, "the mask")
    by = read_fill_name(by, pixels)
    n, c, h, w = pixels.shape
    if mask.shape not in ((n, c, h, w), (n, 1, h, w)) or not bool(((mask == 0) | (mask == 1)).all()):
        shown = f"the mask has shape {tuple(mask.shape)} and type {mask.dtype}".replace("torch.", "")
        wanted = " or ".join(map(str, dict.fromkeys([(n, c, h, w), (n, 1, h, w)])))
        raise CallerError(f"{shown}; expected bool {wanted}, True where removed")
    value, seeds = read_fill_value(pixels, mean), compute_image_seeds(pixels)
    return replace_features(pixels, mask.bool(), by, value, seeds)
