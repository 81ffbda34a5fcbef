"""Selection of images: balanced subsets, held-out test images, and classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.select_images import (
    check_image_limit,
    mark_balanced_subset,
    mark_held_out_images,
    select_rows_of_split,
)


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(0, 45))
def test_mark_balanced_subset_takes_classes_in_turn(labels, limit):
    waiting = {label: [i for i, other in enumerate(labels) if other == label] for label in range(5)}
    slow: list[int] = []
    while len(slow) < limit and any(waiting.values()):
        for label in range(5):
            if waiting[label] and len(slow) < limit:
                slow.append(waiting[label].pop(0))
    assert np.flatnonzero(mark_balanced_subset(np.array(labels, np.int64), limit)).tolist() == sorted(slow)


def test_check_image_limit_rejects_too_few_images():
    """Small data sets keep all classes; data sets of 100 or more classes may lack some."""
    for name, least in (("imagenette", 10), ("imagenet", 2)):
        check_image_limit(find_dataset(name), least)
        with pytest.raises(DataError, match=f"--max-images {least - 1} is below the .*; use {least} or more"):
            check_image_limit(find_dataset(name), least - 1)


def test_mark_held_out_images_draws_uniformly_per_class():
    """Each image is equally likely, because the first images of a class often show one bird."""
    labels = np.repeat([0, 1], 10)
    drawn = sum(mark_held_out_images(labels, 2, seed).astype(int) for seed in range(1000))
    assert set(np.add.reduceat(mark_held_out_images(labels, 2, 7), (0, 10))) == {2}
    assert abs(drawn - 200).max() < 6 * np.sqrt(1000 * 0.2 * 0.8)  # six standard deviations
    np.testing.assert_array_equal(mark_held_out_images(labels, 2, 7), mark_held_out_images(labels, 2, 7))


def test_imagenet_100_selects_every_tenth_class_with_equal_counts():
    """ImageNet's own numbers: 1,300 of most classes and 732 of the smallest; here class 20 is the smallest."""
    record = find_dataset("imagenet-100-64")
    counts = np.full(1000, 1300)
    counts[[20, 21]] = 732
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(1000), counts))
    rows = select_rows_of_split(record, Split.TRAIN, labels)
    assert np.bincount(labels[rows] // 10).tolist() == [732] * 100
    assert np.flatnonzero(labels == 30)[:732].tolist() == rows[labels[rows] == 30].tolist()
