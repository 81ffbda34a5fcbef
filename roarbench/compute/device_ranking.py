"""Compute bit-planes of importance maps on the device that holds the maps.

The bit-planes from a GPU equal those from `compute.bit_planes` on a CPU byte for byte, because keys are integers that
are unique within an image, so every sorting algorithm gives the same order.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from roarbench.common.device_settings import choose_device, send_to_device
from roarbench.common.enums import Unit
from roarbench.compute.bit_planes import (
    Keys,
    Layout,
    encode_planes,
    encode_with_sorted_copy,
    find_planes_changing_at_boundaries,
    find_rows_with_ties_at_boundaries,
)
from roarbench.compute.ranking import convert_to_sortable_integers, draw_tie_order, flatten_importance, make_sort_keys
from roarbench.estimators.random_draws import call_with_each_row

_IMAGES_PER_SORT = 32  # at 224 pixels, their keys take 39 MB and a sort takes several times as much
_MAX_CHANNELS = 7  # maximum channels that NumPy sums one by one, whatever the memory layout
# a function from images' positions in a batch, int64 (k,), to their tie orders, int32 (k, d)
DrawTies = Callable[[NDArray[np.int64]], NDArray[np.int32]]


class RankedBatch(NamedTuple):
    """Bit-planes of a batch of maps, and each map's share of tied features."""

    planes: NDArray[np.uint8]  # (n, planes, width), see `bit_planes.encode_planes`
    tied: list[float]  # share of features that have the map's most frequent value, per map; 1 / d without ties


def rank_to_bit_planes(importance: Tensor, draw_ties: DrawTies, layout: Layout) -> RankedBatch:
    """Rank a batch of maps and encode the ranking as bit-planes.

    Args:
        importance: float (n, c, h, w) or (n, h, w), finite.
        draw_ties: Function that returns `draw_tie_order` of some images by their positions in the batch, int64 (k,).
            It is called only for images with equal features on both sides of a level.
        layout: Shape, unit and levels.

    Raises:
        RunError: A map has another shape or a value that is not finite.
    """
    if _can_rank_on_gpu(importance, layout):
        flat = _flatten_features(importance, layout)
        bits = _convert_to_sortable_integers(flat)
        encoded_parts = [_encode_and_measure_ties(part, layout) for part in torch.split(bits, _IMAGES_PER_SORT)]
        if bool(flat.isfinite().all()):
            planes, shares, undecided = map(torch.cat, zip(*encoded_parts, strict=True))
            positions = undecided.nonzero()[:, 0].cpu()
            for start in range(0, len(positions), _IMAGES_PER_SORT):
                chosen = positions[start : start + _IMAGES_PER_SORT]
                on_device = send_to_device(chosen, bits.device)
                ties = send_to_device(torch.from_numpy(draw_ties(chosen.numpy())), bits.device)
                keys = (bits[on_device].long() << 32) | ties  # equals `ranking.make_sort_keys`
                planes[on_device] = _encode_with_sorted_copy(keys, keys.sort(dim=1).values, layout)
            return RankedBatch(planes.cpu().numpy(), shares.tolist())
    # `flatten_importance` raises an error for maps of a wrong shape and for values that are not finite
    features = flatten_importance(importance.cpu().numpy(), layout.shape, layout.unit)
    numbers = convert_to_sortable_integers(features)
    # sorting these integers takes half the time of sorting keys with tie orders, and most maps have no ties
    ordered = np.sort(numbers, axis=1)
    encoded = encode_with_sorted_copy(numbers, ordered, layout)
    rows = np.flatnonzero(find_rows_with_ties_at_boundaries(ordered, layout))
    if len(rows):
        encoded[rows] = encode_planes(make_sort_keys(features[rows], draw_ties(rows)), layout)
    return RankedBatch(encoded, compute_largest_tie_shares(ordered))


def make_cached_tie_order_function(ids: NDArray[np.int64]) -> Callable[[int, NDArray[np.int64]], NDArray[np.int32]]:
    """Return a function that draws the tie orders of d features for k images, int32 (k, d), each only once.

    The function takes d and the positions of the k images in `ids`, int64 (k,).
    """
    drawn: dict[tuple[int, int], NDArray[np.int32]] = {}

    def draw(d: int, row: int) -> None:
        if (d, row) not in drawn:
            drawn[d, row] = draw_tie_order(ids[row : row + 1], d)[0]

    def draw_rows(d: int, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        call_with_each_row(partial(draw, d), rows.tolist(), gpu=choose_device().type == "cuda")
        return np.stack([drawn[d, row] for row in rows.tolist()])

    return draw_rows


def compute_largest_tie_shares(ordered: Keys | NDArray[np.float32]) -> list[float]:
    """Compute `RankedBatch.tied` from the sorted features of each map, (n, d)."""
    d, differs = ordered.shape[1], ordered[:, 1:] != ordered[:, :-1]
    # lengths of the longest runs of equal features; most maps have no equal features
    longest = [1 if row.all() else np.diff(np.flatnonzero(row), prepend=-1, append=d - 1).max() for row in differs]
    return [int(length) / d for length in longest]


def _can_rank_on_gpu(importance: Tensor, layout: Layout) -> bool:
    """Return whether maps are on a GPU, have the right shape, and have channels that NumPy would sum in order."""
    is_order_known = layout.unit is Unit.SCALAR or layout.shape[0] <= _MAX_CHANNELS
    return importance.is_cuda and is_order_known and importance.shape[1:] in (layout.shape, layout.shape[1:])


def _flatten_features(importance: Tensor, layout: Layout) -> Tensor:
    """Flatten maps of the right shape to features, float32 (n, d), as `ranking.flatten_importance` does."""
    if importance.ndim == 3:
        channels = layout.shape[0] if layout.unit is Unit.SCALAR else 1
        importance = importance[:, None].expand(-1, channels, -1, -1)
    elif layout.unit is Unit.PIXEL:
        total = importance[:, 0].double()
        for channel in range(1, importance.shape[1]):
            total = total + importance[:, channel].double()
        importance = total
    return importance.reshape(len(importance), -1).float()


def _convert_to_sortable_integers(importance: Tensor) -> Tensor:
    """Convert importances to integers, int32 (n, d), as `ranking.convert_to_sortable_integers` does."""
    bits = (importance + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0: both are equal and must tie
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _encode_with_sorted_copy(keys: Tensor, ordered: Tensor, layout: Layout) -> Tensor:
    """Encode keys on their own device, as `bit_planes.encode_with_sorted_copy` does."""
    planes = torch.zeros((len(keys), layout.planes, layout.bytes_per_plane), dtype=torch.uint8, device=keys.device)
    for boundary, flipped in zip(layout.bin_boundaries, find_planes_changing_at_boundaries(layout), strict=True):
        beyond = _pack_bits(keys < ordered[:, layout.features - boundary, None], layout.bytes_per_plane)
        for plane in flipped:
            planes[:, plane] ^= beyond
    return planes


def _encode_and_measure_ties(bits: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
    """Encode integers without tie orders.

    Returns:
        The planes; each row's share of tied features, as in `RankedBatch.tied`; bool (n,), True for each row with equal
        integers on both sides of a boundary.
    """
    ordered, d = bits.sort(dim=1).values, layout.features
    # torch.mode would sort every row again, and on a GPU it sorts rows of more than 2048 numbers one after another.
    # The count at the first value of a run of equal values is the length of the run; the other counts are smaller
    counts = torch.searchsorted(ordered, ordered, right=True) - torch.arange(d, device=bits.device)
    undecided = torch.zeros(len(bits), dtype=torch.bool, device=bits.device)
    for boundary in layout.bin_boundaries:
        undecided |= ordered[:, d - boundary] == ordered[:, d - boundary - 1]
    return _encode_with_sorted_copy(bits, ordered, layout), counts.amax(1).double() / d, undecided


def _pack_bits(bits: Tensor, width: int) -> Tensor:
    """Pack bool (n, d) into uint8 (n, width), most significant bit first; unused bits are 0."""
    filled = pad(bits.byte(), (0, 8 * width - bits.shape[1]))
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=bits.device)  # a copy of a list would wait for the GPU
    return (filled.view(len(bits), width, 8) << shifts).sum(2, dtype=torch.uint8)
