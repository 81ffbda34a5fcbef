"""How much removal changes each feature, as `fill.change_numbers` has it, without torch."""

import numpy as np
from numpy.typing import NDArray

from roarbench.estimators import BLUR
from roarbench.terms import Unit

Bytes = NDArray[np.uint8]


def changes(pixels: Bytes, fill: NDArray[np.float32], unit: Unit) -> list[Bytes]:
    """Return what `kernels.fill.change_numbers` does for the fill by the mean, without torch."""
    from scipy.ndimage import gaussian_filter1d  # a quarter of a second that pages without pictures do without

    change = blurred = np.abs(pixels.astype(np.float32) - fill)
    for axis in (2, 3):
        blurred = gaussian_filter1d(blurred, BLUR * change.shape[axis], axis, mode="mirror")
    made = [change, blurred] if unit is Unit.SCALAR else [_pooled(each, unit.side) for each in (change, blurred)]
    return [each.reshape(len(each), -1).round().astype(np.uint8) for each in made]


def _pooled(change: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """Return the mean over channels and each square; those that the border cuts have fewer pixels."""
    grey = change.mean(1)
    count, height, width = grey.shape
    edges = [(0, 0), (0, -height % side), (0, -width % side)]
    squares = np.pad(grey, edges, constant_values=np.nan).reshape(count, -(-height // side), side, -1, side)
    return np.asarray(np.nanmean(squares, axis=(2, 4)))
