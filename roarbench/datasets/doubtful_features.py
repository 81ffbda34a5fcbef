"""Describe features of a user's table that lose their differences in 256 steps, or that copy the class."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from roarbench.common.text import list_some
from roarbench.datasets.select_images import Labels
from roarbench.datasets.tabular import quantize_features

# the middle half of a column's values is to take this many of the 256 steps; columns of few values are not tested,
# nor those that hold one value in nearly all rows
_FEWEST_STEPS, _FEWEST_VALUES, _FEWEST_ROWS = 8, 16, 0.25
_ROWS_PER_VALUE = 5  # with fewer rows for each value of a feature, the value may determine the class by chance


def describe_doubtful_features(
    values: NDArray[np.float64], labels: Labels, names: Sequence[str], train_rows: NDArray[np.int64]
) -> Iterator[str]:
    """Yield warnings about features, (n, d), of these names; `labels` are class numbers, (n,)."""
    trained = values[train_rows]
    steps = quantize_features(values, train_rows)[train_rows, :, 0, 0].astype(int)
    merged, copies = [], []
    for place, name in enumerate(names):
        found, numbers, counts = np.unique(trained[:, place], return_inverse=True, return_counts=True)
        others = numbers.reshape(-1) != counts.argmax()  # the most frequent value may mark missing ones, or rare events
        if len(found) > _FEWEST_VALUES and others.mean() >= _FEWEST_ROWS:
            low, high = np.quantile(steps[others, place], (0.25, 0.75))
            if high - low < _FEWEST_STEPS:
                start, end = np.quantile(trained[others, place], (0.25, 0.75))
                merged.append(
                    f"'{name}' (half of its values in {start:g} to {end:g}, all in {found[0]:g} to {found[-1]:g})"
                )
        different, numbers = np.unique(values[:, place], return_inverse=True)
        pairs = np.unique(np.stack([numbers.reshape(-1), labels], 1), axis=0)
        if len(pairs) == len(different) <= len(values) / _ROWS_PER_VALUE:
            copies.append(f"'{name}'")
    if merged:
        remedy = "fill in missing values that a number such as -999 stands for, or take the logarithm of the column"
        yield f"256 steps hardly tell the values of a column apart: column {list_some(merged)}; {remedy}"
    if copies:
        remedy = "if it is a copy of the class, write columns = […] without it in the suite's file"
        yield f"each value occurs in one class only: column {list_some(copies)}; {remedy}"
