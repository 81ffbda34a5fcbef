"""Rank features by importance maps, and remove features from images."""

import hashlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.analysis.row_warnings import TIED
from roarbench.api.inputs import (
    advise_on_table,
    find_channel_ranges_without_outliers,
    is_table,
    quantize,
    to_array,
    to_tensor,
)
from roarbench.common.enums import Order, Unit
from roarbench.common.errors import CallerError, RunError, UnknownName
from roarbench.compute import ranking
from roarbench.compute.degrade import apply_non_mean_fill, degrade
from roarbench.compute.map_ranking import compute_largest_tie_shares, flatten_importance
from roarbench.plan.change_suite import find_unit
from roarbench.plan.fill_names import find_recorded_fill_name
from roarbench.plan.suite import refuse_impossible_for_table

_FAR = 3  # times the largest absolute value of the images; a fill farther outside their range causes a warning

FillFunction = Callable[[slice | Tensor, Tensor], Tensor]  # row indices and removal masks -> degraded images


class RemovalSettings(NamedTuple):
    """Order, levels and unit of a removal."""

    order: Order
    levels: tuple[float, ...]  # removal fractions in (0, 1]
    unit: Unit

    @classmethod
    def read(cls, order: str, levels: Any, unit: str = Unit.SCALAR) -> "RemovalSettings":
        """Read a caller's order, levels and unit; CallerError for an unknown name or a level outside (0, 1]."""
        if isinstance(levels, str) or not isinstance(levels, Iterable):
            raise CallerError(f"levels are {levels!r}, expected a sequence of fractions; write levels=(0.3,)")
        steps = tuple(map(read_real_number, levels))
        if not steps or list(steps) != sorted(set(steps)) or steps[0] <= 0 or steps[-1] > 1:
            raise CallerError(f"levels are {tuple(levels)}, expected ascending fractions in (0, 1]; write 0.3 for 30 %")
        return cls(read_order(order), steps, find_unit(unit))


def leave_out_idle_levels(removal: RemovalSettings, pixels: Tensor, least_kept: int = 1) -> RemovalSettings:
    """Leave out the levels that remove no feature, or keep fewer than `least_kept`; CallerError if no level is left.

    At such a level all maps have the same effect, so their gains are 0. A warning names the levels that are left out.
    """
    _, c, h, w = pixels.shape
    features = math.prod(removal.unit.grid((c, h, w)))
    counts = {t: ranking.count_removed(t, features) for t in removal.levels}
    levels = tuple(t for t, count in counts.items() if 1 <= count <= features - least_kept)
    seen = ", ".join(f"{t:g} removes {count} of {features} features" for t, count in counts.items() if t not in levels)
    if not levels:
        raise CallerError(f"no level removes some of the features: {seen}")
    if seen:
        warnings.warn(f"levels are left out: {seen}", stacklevel=3)
    return removal._replace(levels=levels)


def read_real_number(number: Any, subject: str = "a removal fraction") -> float:
    """Convert a fraction; CallerError for anything that is not a number."""
    with suppress(TypeError, ValueError):
        number = number.numpy(force=True)[()] if isinstance(number, Tensor) else number
        if not isinstance(number, str | bool):
            # `str` makes float32 0.3 exactly 0.3
            return float(str(number) if isinstance(number, np.floating) else number)
    raise CallerError(f"{subject} is {number!r}, expected a number; 30 % is written 0.3")


def read_whole_number(number: Any, subject: str, least: int = 0) -> int:
    """Convert a whole number; CallerError for anything else, or for a number below `least`."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise CallerError(f"{subject} is {number!r}, expected a whole number from {least}")
    return int(number)


def read_order(name: str) -> Order:
    """Return the order with this name; UnknownName if there is none."""
    if name not in list(Order):
        raise UnknownName("order", name, Order)
    return Order(name)


def read_pixels(images: Any) -> Tensor:
    """Convert images to a float32 tensor (n, c, h, w)."""
    pixels = to_tensor(images, "images").float()
    if pixels.ndim != 4:
        raise CallerError(f"images have shape {tuple(pixels.shape)}, expected (n, c, h, w){advise_on_table(images)}")
    return pixels


def read_fill_value(pixels: Tensor, fill: Any, stacklevel: int = 3) -> Tensor:
    """Convert a fill value to float32 (c,); None stands for the mean of these images' channels.

    A value far outside the images' values causes a warning in the name of the caller `stacklevel - 1` calls above.
    """
    if isinstance(fill, str):
        raise CallerError(f"fill is '{fill}', expected a number for each channel, or None for the mean")
    value = pixels.float().mean((0, 2, 3)) if fill is None else to_tensor(fill, "the fill").float()
    if fill is None and not value.isfinite().all():
        raise CallerError("images hold NaN or infinity, so their mean is no fill value; expected finite numbers")
    if value.shape != pixels.shape[1:2]:
        raise CallerError(f"fill has shape {tuple(value.shape)}, expected {tuple(pixels.shape[1:2])}: one per channel")
    if not value.isfinite().all():
        raise CallerError(f"fill is {value.tolist()}, expected finite numbers")
    _warn_if_fill_is_far_outside(pixels.float(), value, stacklevel + 1)
    return value


def _warn_if_fill_is_far_outside(pixels: Tensor, value: Tensor, stacklevel: int) -> None:
    """Warn of a fill on another scale than the images, such as 127 for normalised images, channel by channel."""
    low, high, largest = pixels.amin((0, 2, 3)), pixels.amax((0, 2, 3)), pixels.abs().max()
    far = (value < low - _FAR * largest) | (value > high + _FAR * largest)
    if far.any() and largest > 0:
        number = int(far.int().argmax())
        seen = f"the fill {value[number]:g} of channel {number} is far outside the images' values"
        remedy = "pass a fill on the scale of the images"
        warnings.warn(f"{seen}, {low[number]:.3g} to {high[number]:.3g}; {remedy}", stacklevel=stacklevel)


def read_fill_name(name: str, pixels: Tensor) -> str:
    """Return the records' name of a fill; CallerError if there is no such fill, or if it is impossible for a table."""
    fill = find_recorded_fill_name(name)
    if is_table(pixels):
        refuse_impossible_for_table(fill)
    return fill


def compute_image_seeds(pixels: Tensor) -> Tensor:
    """Return a seed for each image, a hash of its content, int64 (n,), at least 0."""
    hashes = (hashlib.sha256(image.numpy().tobytes()).digest()[:8] for image in pixels.contiguous())
    return torch.tensor([int.from_bytes(digest, "big") >> 1 for digest in hashes])


def drop_channel_axis(maps: NDArray[Any]) -> NDArray[Any]:
    """Return maps of shape (n, 1, h, w) in shape (n, h, w), and all other maps unchanged."""
    return maps[:, 0] if maps.ndim == 4 and maps.shape[1] == 1 else maps


def flatten_maps(maps: Any, shape: tuple[int, ...] | None = None, unit: Unit = Unit.SCALAR) -> NDArray[np.float32]:
    """Compute each feature's importance, float32 (n, d); the images' shape (c, h, w) is taken from the maps if None."""
    array = to_array(maps, "maps")
    if array.ndim not in (3, 4) or not array.size:
        expected = "expected (n, c, h, w), (n, 1, h, w) or (n, h, w)"
        remedy = advise_on_table(maps, "maps") if not shape or shape[1:] == (1, 1) else ""
        raise CallerError(f"maps have shape {array.shape}, {expected}{remedy}")
    if shape:
        check_map_shape("maps", array.shape, (len(array), *shape))
    array = drop_channel_axis(array)
    c, h, w = shape or (array.shape[1] if array.ndim == 4 else 1, *array.shape[-2:])
    with reraise_as_caller_error():
        tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        return flatten_importance(tensor, (c, h, w), unit).numpy()


def check_map_shape(subject: str, maps: tuple[int, ...], images: tuple[int, ...]) -> None:
    """Raise CallerError, with a remedy, for maps whose shape does not fit images of shape (n, c, h, w)."""
    n, c, h, w = images
    if maps in (images, (n, 1, h, w), (n, h, w)):
        return
    colour, remedy = f"{images}, " if c > 1 else "", ""
    if maps in ((n, h, w, c), (n, h, w, 1)):
        remedy = "; write maps.permute(0, 3, 1, 2)"
    elif maps == (n, c) and (h, w) == (1, 1):
        remedy = "; for a table write maps[:, :, None, None]"
    elif maps == (n, w, c, h):
        remedy = "; the images seem to have their channels last: write images.permute(0, 3, 1, 2)"
    elif len(maps) > 2 and maps[0] == n and maps[-2:] != (h, w):
        remedy = "; resize them, for example with torch.nn.functional.interpolate"
    raise CallerError(f"{subject} have shape {maps}, expected {colour}{(n, 1, h, w)} or {(n, h, w)}{remedy}")


def rank_maps(
    pixels: Tensor, maps: Any, seed: int = 0, unit: Unit = Unit.SCALAR, ties: NDArray[np.int32] | None = None
) -> NDArray[np.int64]:
    """Return each image's feature indices, most important first, int64 (n, d); CallerError if the maps do not fit.

    The order of tied features is drawn from the seed and the image's content, so it does not depend on the image's
    position in the array. To rank several maps of the same images, callers may pass one drawn order as `ties`. Maps in
    which most features are tied cause a warning in the name of the caller's caller.
    """
    flat = flatten_maps_of_images(pixels, maps, unit)
    if ties is None:
        ties = ranking.draw_tie_order(compute_image_seeds(pixels).numpy(), flat.shape[1], seed)
    with reraise_as_caller_error():
        ranked = ranking.rank(flat, ties)
    warn_if_mostly_tied(flat, ranked, stacklevel=4)
    return ranked


def warn_if_mostly_tied(flat: NDArray[np.float32], ranked: NDArray[np.int64], stacklevel: int) -> None:
    """Warn of maps, (n, d), in which more than half of the features have the same value; `ranked` is their ranking."""
    share = float(compute_largest_tie_shares(torch.from_numpy(np.take_along_axis(flat, ranked, 1))).mean())
    if share > TIED and flat.shape[1] > 1:
        warn_of_ties(f"the maps ({share:.0%})", stacklevel + 1)


def warn_of_ties(maps: str, stacklevel: int) -> None:
    """Warn that most features in `maps` are ranked at random, in the name of the caller `stacklevel` calls above."""
    subject = f"more than {TIED:.0%} of the features in {maps} have the same value in float32"
    warnings.warn(f"{subject}; equal values are ranked at random", stacklevel=stacklevel)


def flatten_maps_of_images(pixels: Tensor, maps: Any, unit: Unit) -> NDArray[np.float32]:
    """Flatten maps as `flatten_maps` does; CallerError unless there is one for each image."""
    flat = flatten_maps(maps, tuple(pixels.shape[1:]), unit)
    if len(flat) != len(pixels):
        raise CallerError(f"there are {len(flat)} maps of {len(pixels)} images; expected one for each")
    return flat


def mark_removed(
    ranked: NDArray[np.int64], shape: tuple[int, ...], t: Any, order: str, unit: Unit = Unit.SCALAR
) -> Tensor:
    """Mark the features that are removed at level t; `ranked` has each image's features, most important first, (n, d).

    The mask is bool (n, c, h, w) if the unit is `scalar`, else (n, 1, h, w), for images of `shape` (…, c, h, w).
    """
    with reraise_as_caller_error():
        count = ranking.count_removed(read_real_number(t), ranked.shape[1])
    removed = ranked[:, :count] if read_order(order) is Order.MORF else ranked[:, ranked.shape[1] - count :]
    mask = np.zeros(ranked.shape, np.bool_)
    np.put_along_axis(mask, removed, True, 1)
    c, h, w = shape[-3:]
    return torch.from_numpy(mask).view(len(ranked), *unit.grid((c, h, w)))


@contextmanager
def reraise_as_caller_error() -> Iterator[None]:
    """Raise CallerError in place of errors of the ranking functions, because the caller chose maps and level."""
    try:
        yield
    except (RunError, ValueError) as error:
        raise CallerError(str(error)) from None


def make_image_filler(pixels: Tensor, fill: Any) -> FillFunction:
    """Return a function of (rows, removed) that returns the images `rows` with their removed features filled."""
    if not isinstance(fill, str) or fill == "mean":
        value = read_fill_value(pixels, None if isinstance(fill, str) else fill, stacklevel=4)
        return lambda rows, removed: degrade(pixels[rows], removed, value)
    fill = read_fill_name(fill, pixels)
    low, high = value_range = find_channel_ranges_without_outliers(pixels.numpy())
    quantized, seeds = torch.from_numpy(quantize(pixels.numpy(), value_range)), compute_image_seeds(pixels)
    mean = quantized.float().mean((0, 2, 3))
    start, step = (torch.from_numpy(per_channel).float()[:, None, None] for per_channel in (low, (high - low) / 255))

    def fill_images(rows: slice | Tensor, removed: Tensor) -> Tensor:
        values = apply_non_mean_fill(quantized[rows], removed, fill, mean, seeds[rows])
        return torch.where(removed, values * step + start, pixels[rows])

    return fill_images
