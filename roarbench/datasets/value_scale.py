"""Choose how values of more than 8 bits become 8 bits: by their depth, or by a window of training images' values."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.decode_image import inspect_image, is_unbounded, loses_contrast
from roarbench.datasets.stored_format import Values, find_used_range, sample_without_spikes
from roarbench.datasets.undecoded_splits import RawSplit, read_stored_images

_MAX_IMAGES = 512  # training images whose values are measured; some 2,000 values of each are used
_MANY_SHADES = 16  # at each end of the range of wrapped values
_DIGITS = 3  # of the width of a window, to which its ends are rounded


def choose_value_scale(record: DatasetRecord, raw: RawSplit, warn: Callable[[str], object]) -> DatasetRecord:
    """Replace the record's depth by a window if the depth would destroy contrast, or values are floats or negative.

    `record` has the depth that the largest value needs, and `raw` are the training images. `warn` is called with a line
    if the window loses contrast, too.
    """
    chosen = raw.rows[:: -(-len(raw.rows) // _MAX_IMAGES)]
    samples, is_any_unbounded = list[Values](), False  # of the images of more than 8 bits
    for content in read_stored_images(raw.groups, record.image_column, chosen):
        if (values := inspect_image(content).values) is not None:
            samples.append(sample_without_spikes(values))
            is_any_unbounded |= is_unbounded(values)
    few = sum(loses_contrast(sample, record.depth) for sample in samples)
    scale = f"{record.depth} bits"
    if samples and (is_any_unbounded or few > len(samples) / 2):
        varied = [sample for sample in samples if sample[0] < sample[-1]] or samples
        # the 1st and the 99th percentile of the values, rounded outwards
        used = find_used_range(np.sort(np.concatenate(varied), axis=None))
        window: tuple[float, ...] = (used.low, used.low + 1)
        if used.low < used.high:
            step = 10.0 ** (math.floor(math.log10(used.high - used.low)) + 1 - _DIGITS)
            ends = math.floor(used.low / step) * step, math.ceil(used.high / step) * step
            window = tuple(float(f"{end:.12g}") for end in ends)
        record, scale = replace(record, depth=0, window=window), f"the range of all, {format_window(window)}"
        few = sum(loses_contrast(sample, 8, window) for sample in samples)
    if few:
        seen = f"{few} of {len(samples)} inspected images use a small part of {scale}"
        warn(f"warning: {seen}, and keep fewer than 64 of their shades; if contrast matters, rescale each image first")
    wrapped = 0  # samples of 16 bits that have many shades in the lowest and the highest quarter alone
    for sample in samples:
        low, high = np.searchsorted(sample, [2**14, 3 * 2**14])
        is_apart = sample.dtype == np.uint16 and low == high
        wrapped += is_apart and min(len({*part.tolist()}) for part in (sample[:low], sample[low:])) >= _MANY_SHADES
    if wrapped:
        seen = f"the values of {wrapped} of {len(samples)} inspected images are near 0 and near 65,535 alone"
        remedy = "if these are negative numbers that were stored without a sign, not ink on paper, add 32,768"
        warn(f"warning: {seen}; {remedy}")
    return record


def format_window(window: tuple[float, ...]) -> str:
    """Return a window as it is written in a suite's file, with whole numbers without a point."""
    return f"[{', '.join(f'{number:.0f}' if number.is_integer() else f'{number!r}' for number in window)}]"
