"""Rank the features of importance maps, on the device that holds the maps, and encode the rankings as bit-planes.

A GPU gives the bit-planes of a CPU byte for byte, because keys are integers that are unique within an image, so every
sorting algorithm gives the same order.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from roarbench.common.device_settings import send_to_device
from roarbench.common.enums import Unit
from roarbench.common.errors import RunError
from roarbench.compute.ranking import Layout, draw_tie_order, find_planes_changing_at_boundaries, keep_order_in_float32
from roarbench.estimators.random_draws import draw_for_each_row

# features that are sorted together: on a CPU their keys fit into its cache; on a GPU they take 40 MB, and a sort takes
# several times as much
_CPU_FEATURES_PER_SORT, _GPU_FEATURES_PER_SORT = 1_000_000, 5_000_000


_EXACT_IN_FLOAT32 = {torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.uint8, torch.int8, torch.int16}
DrawnTies = dict[tuple[int, int], NDArray[np.int32]]  # from an image's id and number of features to its tie order


class RankedBatch(NamedTuple):
    """Bit-planes of a batch of maps, and each map's share of tied features."""

    planes: NDArray[np.uint8]  # (n, planes, bytes per plane), see `ranking`
    tied: list[float]  # share of features that have the map's most frequent value, per map; 1 / d without ties


def rank_to_bit_planes(
    importance: Tensor, ids: NDArray[np.int64], layout: Layout, drawn: DrawnTies | None = None
) -> RankedBatch:
    """Rank a batch of maps, float (n, c, h, w) or (n, h, w), and encode the rankings as bit-planes.

    `ids` has the number of each image in the data set, which determines the order of tied features. Calls for
    several maps of the same images draw each tie order only once if they share the dict `drawn`. Raises RunError for a
    map that has another shape or a value that is not finite.
    """
    features = flatten_importance(importance, layout.shape, layout.unit)
    drawn = {} if drawn is None else drawn
    together = _GPU_FEATURES_PER_SORT if features.is_cuda else _CPU_FEATURES_PER_SORT
    step = max(1, together // layout.features)
    starts = range(0, len(features), step)
    parts = [_encode(features[i : i + step], ids[i : i + step], layout, drawn) for i in starts]
    planes, shares = zip(*parts, strict=True)
    return RankedBatch(torch.cat(planes).cpu().numpy(), torch.cat(shares).tolist())


def flatten_importance(importance: Tensor, shape: tuple[int, int, int], unit: Unit) -> Tensor:
    """Return the importance of every feature, float32 (n, d), one row per image.

    If float32 cannot represent importances of another type, they become float32 numbers in the same order.

    Args:
        importance: (n, c, h, w) or (n, h, w); larger is more important. For scalar features, a map without channels
            gives all channels of a pixel the same importance; these ties are broken like all other ties.
        shape: Channels, height and width of an image.
        unit: Scalar: each number is a feature, d = c h w. Pixel: the map is summed over channels, d = h w.

    Raises:
        RunError: The map has another shape, or a value that is not finite.
    """
    importance, given_type = importance.detach(), importance.dtype
    channels, height, width = shape
    if tuple(importance.shape[1:]) not in ((channels, height, width), (height, width)):
        wanted = f"(n, {channels}, {height}, {width}) or (n, {height}, {width})"
        raise RunError(f"importance map has shape {tuple(importance.shape)}, expected {wanted}")
    if unit is Unit.PIXEL and importance.ndim == 4:
        importance = _sum_channels(importance)
    elif unit is Unit.SCALAR and importance.ndim == 3:
        importance = importance[:, None].expand(-1, channels, -1, -1)
    flat = importance.reshape(len(importance), -1)
    if given_type in _EXACT_IN_FLOAT32:
        flat = flat.float()
    else:
        flat = torch.from_numpy(keep_order_in_float32(flat.cpu().numpy())).to(flat.device)
    finite = flat.isfinite() if flat.is_cuda else torch.from_numpy(np.isfinite(flat.numpy()))
    if not finite.all():
        image = int(finite.all(1).int().argmin())
        bad = flat.shape[1] - int(finite[image].sum())
        seen = f"{bad} of {flat.shape[1]} values in the map of image {image} of the batch"
        raise RunError(f"{seen} are NaN or infinite in float32; expected finite numbers")
    return flat


def _sum_channels(importance: Tensor) -> Tensor:
    """Sum channels one after another, on every device, in float64, so that only the sum is rounded to float32."""
    total = importance[:, 0].to(torch.float64, copy=True)
    for channel in importance.unbind(1)[1:]:
        if total.is_cuda:
            total += channel
        else:  # NumPy takes a fifth of torch's time
            np.add(total.numpy(), channel.double().numpy(), out=total.numpy())
    return total


def _encode(features: Tensor, ids: NDArray[np.int64], layout: Layout, drawn: DrawnTies) -> tuple[Tensor, Tensor]:
    """Encode features (n, d) as bit-planes; return them and each image's share of tied features."""
    bits = (features + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0: both are equal and must tie
    # the bits of negative floats sort in reverse order, so all of them except the sign are inverted
    numbers = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    # sorting these integers takes half the time of sorting keys with tie orders, and most maps have no ties
    ordered = _sort(numbers)
    planes = _encode_with_sorted_copy(numbers, ordered, layout)
    before = [layout.features - boundary for boundary in layout.bin_boundaries]
    undecided = (ordered[:, before] == ordered[:, [i - 1 for i in before]]).any(1)
    if len(rows := undecided.nonzero()[:, 0].cpu()):
        on_device = send_to_device(rows, numbers.device)
        images, d = ids[rows.numpy()].tolist(), layout.features

        def draw(image: int) -> None:
            if (image, d) not in drawn:
                drawn[image, d] = draw_tie_order(np.array([image]), d)[0]

        draw_for_each_row(draw, images, gpu=numbers.is_cuda)
        orders = np.stack([drawn[image, d] for image in images])
        ties = send_to_device(torch.from_numpy(orders), numbers.device)
        keys = (numbers[on_device].long() << 32) | ties
        planes[on_device] = _encode_with_sorted_copy(keys, _sort(keys), layout)
    return planes, compute_largest_tie_shares(ordered)


def _sort(keys: Tensor) -> Tensor:
    """Sort each row; on a CPU, NumPy sorts several times as fast as torch."""
    return keys.sort(dim=1).values if keys.is_cuda else torch.from_numpy(np.sort(keys.numpy(), axis=1))


def _encode_with_sorted_copy(keys: Tensor, ordered: Tensor, layout: Layout) -> Tensor:
    """Encode keys, given a sorted copy, as uint8 (n, planes, bytes); the most important feature has the largest key."""
    planes = torch.zeros((len(keys), layout.planes, layout.bytes_per_plane), dtype=torch.uint8, device=keys.device)
    for boundary, flipped in zip(layout.bin_boundaries, find_planes_changing_at_boundaries(layout), strict=True):
        beyond = _pack_smaller(keys, ordered[:, layout.features - boundary, None], layout.bytes_per_plane)
        for plane in flipped:
            planes[:, plane] ^= beyond
    return planes


def _pack_smaller(keys: Tensor, thresholds: Tensor, width: int) -> Tensor:
    """Pack whether each key (n, d) is below the threshold of its row (n, 1).

    The result is uint8 (n, width), most significant bit first; unused bits are 0. On a CPU, NumPy compares several
    times as fast as torch.
    """
    if not keys.is_cuda:
        return torch.from_numpy(np.packbits(keys.numpy() < thresholds.numpy(), axis=1))
    filled = pad((keys < thresholds).byte(), (0, 8 * width - keys.shape[1]))
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=keys.device)  # a copy of a list would wait for the GPU
    return (filled.view(len(keys), width, 8) << shifts).sum(2, dtype=torch.uint8)


def compute_largest_tie_shares(ordered: Tensor) -> Tensor:
    """Compute `RankedBatch.tied` from the sorted features of each map, (n, d), as float64 (n,)."""
    d = ordered.shape[1]
    if not ordered.is_cuda:  # most maps have no equal features
        values = ordered.numpy()
        differs = values[:, 1:] != values[:, :-1]
        longest = [1 if row.all() else np.diff(np.flatnonzero(row), prepend=-1, append=d - 1).max() for row in differs]
        return torch.tensor(longest).double() / d
    positions = torch.arange(d, device=ordered.device)
    starts = pad(ordered[:, 1:] != ordered[:, :-1], (1, 0))
    run_starts = torch.where(starts, positions, 0).cummax(1).values
    return (positions - run_starts + 1).amax(1).double() / d
