"""Order features by importance, and tied features at random; store rankings as bit-planes. Nothing here imports torch.

Bit-planes have only as many bits per feature as the suite's levels (removal fractions) need: five levels divide an
image's ranking into 6 bins, so a feature needs 3 bits instead of 32. `map_ranking` writes the bin numbers as
bit-planes: plane i holds the i-th bit of every feature's code, packed, most significant bit first. `find_removed_bits`
finds the features that are removed at a level from the planes. The bin codes form a search tree: reading the middle
level takes one plane, reading its neighbours takes two, and reading the other levels takes three.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Order, Unit
from roarbench.common.errors import CallerError

TIE_SEED = 0
TIE_RULE = (  # stored rankings are identified by this text, too; a change of `draw_tie_order` must change the text
    "of equal float32 importances the feature with the larger entry of argsort(draws) is more important; "
    "draws: d raw numbers of Philox4x64 with key (seed, image id) and counter (0, 0, 0, 1)"
)
# Philox counter at which an image's tie draws start. Other random numbers of an image have the key (seed, stream)
# instead of (seed, image), so the tie draws of images 0, 1 and 2 equal the bits of image 1's first noisy copy, random
# map and other target. No result depends on this overlap, and another counter would change the rankings of version 1
_TIE_STREAM = (0, 0, 0, 1)
_SMALLEST_NORMAL_BITS = 0x00800000  # of float32
_MASK_VALUES, _BYTE_VALUES, _BYTE_ROUNDING = 16, 256, 1e-3  # maps of at most 16 values are masks or votes


def draw_tie_order(ids: NDArray[np.integer], d: int, seed: int = TIE_SEED) -> NDArray[np.int32]:
    """Draw a random order of each image's features, which decides between features of equal importance.

    Guided backprop has long runs of exact zeros; a fixed order, such as row by row, would reveal the positions of the
    zeros to the network. The order depends only on the seed and the image's id, which is at least 0, so the order is
    the same for every estimator. The order comes from raw random numbers, because NumPy guarantees their stream across
    releases, unlike the stream of `permutation`. The rows of the result, int32 (n, d), are permutations of 0 … d - 1;
    of features with equal importance, the feature with the larger number is more important.
    """
    draws = np.empty((len(ids), d), np.uint64)
    for row, image in zip(draws, ids.tolist(), strict=True):
        key = np.array([seed, image], np.uint64)
        row[:] = np.random.Philox(key=key, counter=np.array(_TIE_STREAM, np.uint64)).random_raw(d)
    return np.argsort(draws, axis=1).astype(np.int32)


def rank(importance: NDArray[np.float32], ties: NDArray[np.int32]) -> NDArray[np.int64]:
    """Rank the features of each image, float32 (n, d): feature indices, most important first.

    Of features with equal importance, the one with the larger number in the tie order, int32 (n, d), comes first.
    """
    bits = (importance + np.float32(0)).view(np.int32)  # + 0 turns -0.0 into 0.0: both are equal and must tie
    # the bits of negative floats sort in reverse order, so all of them except the sign are inverted
    numbers = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
    return np.argsort((numbers.astype(np.int64) << 32) | ties, axis=1)[:, ::-1]


def keep_order_in_float32(importance: NDArray[Any]) -> NDArray[np.float32]:
    """Convert the importances of each image, real numbers of any type (n, d), to float32 numbers in the same order.

    Numbers that float32 represents stay as they are. Rounding could make different numbers of other types equal, such
    as 1 and 1 + 1e-9, so each image's numbers are then replaced by their positions among its distinct numbers.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = importance.astype(np.float32)
        if np.array_equal(rounded.astype(importance.dtype), importance) or not np.isfinite(importance).all():
            return rounded  # callers report values that are not finite
    order = np.argsort(importance, axis=1)
    ordered = np.take_along_axis(importance, order, 1)
    positions = np.zeros(importance.shape, np.int32)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=positions[:, 1:])
    # the bits of positive floats sort as integers do; subnormal floats, which processors may turn into 0, are left out
    bits = positions + np.int32(_SMALLEST_NORMAL_BITS)
    np.put_along_axis(rounded, order, bits.view(np.float32), 1)
    return rounded


def convert_to_smallest_float(maps: NDArray[Any]) -> NDArray[Any]:
    """Convert maps (n, …) to float32, or to float64 if rounding would make different numbers of an image equal."""
    flat = maps.reshape(len(maps), -1)
    with np.errstate(over="ignore"):
        rounded = np.ascontiguousarray(flat, np.float32)
    if flat.dtype == np.float32 or (np.isfinite(rounded).all() and _count_distinct(rounded) == _count_distinct(flat)):
        return rounded.reshape(maps.shape)
    exact = flat.dtype.itemsize <= 8 and (flat.astype(np.float64).astype(flat.dtype) == flat).all()
    return np.ascontiguousarray(flat if exact else keep_order_in_float32(flat), np.float64).reshape(maps.shape)


def _count_distinct(rows: NDArray[Any]) -> list[int]:
    return [len(np.unique(row)) for row in rows]


def have_byte_values(maps: NDArray[Any]) -> bool:
    """Return whether all maps (n, …) look like bytes: 17 to 256 different values, all whole numbers or 255ths.

    A cast to uint8 merges small differences and wraps negative values around. Importances of few features, and ranks,
    which are whole numbers but all different, are no bytes.
    """
    if not len(maps):
        return False
    distinct = [np.unique(row) for row in maps.reshape(len(maps), -1)]
    few = all(_MASK_VALUES < len(values) <= min(_BYTE_VALUES, maps[0].size // 2) for values in distinct)
    return few and any(all(_are_bytes(values * scale) for values in distinct) for scale in (1.0, 255.0))


def _are_bytes(distinct: NDArray[Any]) -> bool:
    whole = np.rint(distinct)
    is_close = bool((np.abs(distinct - whole) < _BYTE_ROUNDING).all() and np.abs(whole).max() < _BYTE_VALUES)
    return is_close and len(np.unique(whole)) == len(distinct)  # maps of tiny numbers are close to 0, and no bytes


@cache
def count_removed(t: float, d: int) -> int:
    """Return the number of features removed at level t, round(t d), half to even; ValueError if t is outside [0, 1]."""
    if not 0 <= t <= 1:
        raise ValueError(f"level t must be in [0, 1], got {t}; 30% is written 0.3")
    return round(Decimal(str(t)) * d)  # as floats, 0.575 * 100 is below 57.5


@dataclass(frozen=True)
class Layout:
    """Image shape, unit and levels of a ranking that is stored as bit-planes."""

    shape: tuple[int, int, int]  # channels, height and width of an image
    unit: Unit
    levels: tuple[float, ...]  # levels that can be read in either order; 0 and 1 can be read even if they are absent

    @cached_property
    def features(self) -> int:
        """Return d, the number of features of one image."""
        return prod(self.unit.grid(self.shape))

    @cached_property
    def bin_boundaries(self) -> tuple[int, ...]:
        """Return the ranks at which bins begin, in 1 … d - 1, ascending."""
        d = self.features
        counts = {count_removed(t, d) for t in self.levels}
        return tuple(sorted((counts | {d - count for count in counts}) - {0, d}))

    @cached_property
    def boundary_codes(self) -> tuple[int, ...]:
        """Return the code of the bin that begins at each boundary; the first bin, before all boundaries, has code 0."""
        return _assign_search_tree_codes(len(self.bin_boundaries), self.planes)

    @property
    def planes(self) -> int:
        """Return the number of bit-planes of one image, at least 1."""
        return max(1, len(self.bin_boundaries).bit_length())

    @property
    def bytes_per_plane(self) -> int:
        """Return the number of bytes of one image's plane; the unused bits of the last byte are 0."""
        return -(-self.features // 8)


def find_planes_changing_at_boundaries(layout: Layout) -> list[list[int]]:
    """Return, for each boundary, the planes whose bits differ between the bins on its two sides, highest first."""
    neighbours = pairwise((0, *layout.boundary_codes))
    return [_list_planes_of_set_bits(before ^ after, layout.planes) for before, after in neighbours]


def find_removed_bits(planes: NDArray[np.uint8], t: float, order: Order, layout: Layout) -> NDArray[np.uint8]:
    """Find the features removed at level t, as packed bits, uint8 (n, width): 1 where removed, unused bits 0.

    MoRF removes the round(t d) most important features, LeRF the same number of the least important. `planes` are uint8
    (n, planes, width), encoded with this layout; only the planes that the level needs are read. A level
    other than 0, 1 and the layout's levels raises CallerError.
    """
    reading, d = _plan_plane_reading(t, order, layout), layout.features
    if reading is None:
        return np.tile(_pack_ones(d) * bool(count_removed(t, d)), (len(planes), 1))
    lowest, above = reading
    removed = planes[:, lowest].copy()
    for plane, combine in above:
        combine(planes[:, plane], removed, out=removed)
    if order is Order.MORF:
        np.invert(removed, out=removed)
        if d % 8:
            removed &= _pack_ones(d)
    return removed


def read_bin_codes(planes: NDArray[np.uint8], layout: Layout) -> NDArray[np.uint8]:
    """Decode the bin code of every feature, uint8 (n, d); a smaller code is more important."""
    codes = np.zeros((len(planes), layout.features), np.uint8)
    for plane in range(layout.planes):
        codes <<= 1
        codes |= np.unpackbits(planes[:, plane], axis=1, count=layout.features)
    return codes


@cache
def _pack_ones(d: int) -> NDArray[np.uint8]:
    """Return packed bits with 1 for each of d features and 0 in the unused bits."""
    return np.packbits(np.ones(d, bool))


@cache
def _plan_plane_reading(t: float, order: Order, layout: Layout) -> tuple[int, list[tuple[int, np.ufunc]]] | None:
    """Choose the lowest plane to read for a level, and the planes above it with their operators.

    A bin's code is at or beyond the level's boundary if the code has the lowest set bit and all higher set bits of the
    boundary's code, or a higher bit that the boundary's code lacks. Planes below the lowest set bit are not read. The
    result is None if the level removes all features or none.
    """
    count = count_removed(t, layout.features)
    boundary = count if order is Order.MORF else layout.features - count
    if boundary in (0, layout.features):
        return None
    if boundary not in layout.bin_boundaries:
        stored = ", ".join(f"{level:g}" for level in layout.levels)
        raise CallerError(f"level {t} is not stored in these rankings; use one of {stored}, 0 or 1")
    code = layout.boundary_codes[layout.bin_boundaries.index(boundary)]
    *upper, lowest = _list_planes_of_set_bits(code, layout.planes)
    return lowest, [(plane, np.bitwise_and if plane in upper else np.bitwise_or) for plane in reversed(range(lowest))]


def _assign_search_tree_codes(count: int, planes: int, round_up: int = 1) -> tuple[int, ...]:
    """Assign ascending codes to `count` boundaries; boundaries near the middle need the fewest planes."""
    if count == 0:
        return ()
    middle = (count - 1 + round_up) // 2  # of two middle boundaries, the one nearer to the middle of the whole ranking
    half = 1 << (planes - 1)
    right = _assign_search_tree_codes(count - 1 - middle, planes - 1, 0)
    return (*_assign_search_tree_codes(middle, planes - 1, 1), half, *(half + code for code in right))


def _list_planes_of_set_bits(code: int, planes: int) -> list[int]:
    return [plane for plane in range(planes) if code >> (planes - 1 - plane) & 1]
