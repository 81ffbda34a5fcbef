"""Bit-planes of importance maps where they lie: on a GPU byte for byte what `kernels.bit_planes` makes on a processor.

Keys are whole numbers, unique within an image, so that any sort puts them in the one order.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from roarbench.kernels.bit_planes import Layout, encode, flips
from roarbench.kernels.ranking import features, sort_keys
from roarbench.terms import Unit

_ROWS = 32  # images that are sorted at once: their keys at 224 pixels take 39 MB, and a sort several times that
_CHANNELS = 7  # up to which NumPy adds up one after the other, in whichever order the memory has them
_BITS = (128, 64, 32, 16, 8, 4, 2, 1)


def planes_of(importance: Tensor, ties: Tensor, layout: Layout) -> NDArray[np.uint8]:
    """Return the bit-planes of a batch of maps, float (n, c, h, w) or (n, h, w), as `bit_planes.encode` does.

    `ties`, int32 (n, d), is `ranking.tie_order` of the images, on the device of the maps. RunError where the maps have
    another shape, or a value that is not finite.
    """
    if _on_gpu(importance, layout):
        flat = _features(importance, layout)
        parts = zip(torch.split(flat, _ROWS), torch.split(ties, _ROWS), strict=True)
        planes = torch.cat([_planes(_keys(*part), layout) for part in parts])
        if bool(flat.isfinite().all()):
            return planes.cpu().numpy()
    named = features(importance.cpu().numpy(), layout.shape, layout.unit)  # or says what is wrong with them
    return encode(sort_keys(named, ties.cpu().numpy()), layout)


def tied_shares(importance: Tensor, layout: Layout) -> list[float]:
    """Return for each map of a batch the share of its features that have its commonest value: chance orders these.

    Arguments are those of `planes_of`; where no two features tie, the share is one feature's.
    """
    if _on_gpu(importance, layout):
        flat = _features(importance, layout)
        common: Tensor = flat == flat.mode(1, keepdim=True).values
        shares: list[float] = common.double().mean(1).tolist()
        return shares
    ordered = np.sort(features(importance.cpu().numpy(), layout.shape, layout.unit), axis=1)
    d = ordered.shape[1]
    ends = (np.flatnonzero(np.append(row[1:] != row[:-1], True)) for row in ordered)  # of each run of equal numbers
    return [float(np.diff(each, prepend=-1).max() / d) for each in ends]


def _on_gpu(importance: Tensor, layout: Layout) -> bool:
    """Return whether maps are ranked on a GPU: sums over squares are added up in an order that is NumPy's own."""
    channels, height, width = layout.shape
    known = layout.unit is Unit.SCALAR or (layout.unit is Unit.PIXEL and channels <= _CHANNELS)
    return importance.is_cuda and known and importance.shape[1:] in ((channels, height, width), (height, width))


def _features(importance: Tensor, layout: Layout) -> Tensor:
    """Return what `ranking.features` does of maps of the right shape, float32 (n, d)."""
    if importance.ndim == 3:
        channels = layout.shape[0] if layout.unit is Unit.SCALAR else 1
        importance = importance[:, None].expand(-1, channels, -1, -1)
    elif layout.unit is Unit.PIXEL:
        total = importance[:, 0].double()
        for channel in range(1, importance.shape[1]):
            total = total + importance[:, channel].double()
        importance = total
    return importance.reshape(len(importance), -1).float()


def _keys(importance: Tensor, ties: Tensor) -> Tensor:
    """Return what `ranking.sort_keys` does, int64 (n, d)."""
    bits = (importance + 0.0).view(torch.int32)  # -0.0 and 0.0 are equal and must tie
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.long() << 32) | ties


def _planes(keys: Tensor, layout: Layout) -> Tensor:
    """Return what `bit_planes.encode` does, on the device of the keys."""
    planes = torch.zeros((len(keys), layout.planes, layout.width), dtype=torch.uint8, device=keys.device)
    ordered, d = keys.sort(dim=1).values, layout.features
    for boundary, flipped in zip(layout.boundaries, flips(layout), strict=True):
        beyond = _packed(keys < ordered[:, d - boundary, None], layout.width)
        for plane in flipped:
            planes[:, plane] ^= beyond
    return planes


def _packed(bits: Tensor, width: int) -> Tensor:
    """Return bool (n, d) as uint8 (n, width), the first bit the most significant one, zeros behind the last."""
    filled = pad(bits.byte(), (0, 8 * width - bits.shape[1]))
    values = torch.tensor(_BITS, dtype=torch.uint8).to(bits.device)
    return (filled.view(len(bits), width, 8) * values).sum(2, dtype=torch.uint8)
