import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.subsets import balanced_subset, check_limit, choose_rows, enough, held_out
from roarbench.errors import DataError
from roarbench.terms import Split


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(0, 45))
def test_balanced_subset_takes_turns(labels, limit):
    waiting = {label: [i for i, other in enumerate(labels) if other == label] for label in range(5)}
    slow: list[int] = []
    while len(slow) < limit and any(waiting.values()):
        for label in range(5):
            if waiting[label] and len(slow) < limit:
                slow.append(waiting[label].pop(0))
    marked = balanced_subset(np.array(labels, np.int64), limit)
    assert np.flatnonzero(marked).tolist() == sorted(slow)


def test_the_least_limit():
    """A small set keeps all its classes; one of a hundred and more may lack some, for a try on a small machine."""
    for name, least in (("imagenette", 10), ("imagenet", 2)):
        check_limit(find_dataset(name), least)
        with pytest.raises(DataError, match=f"--limit {least - 1} is below the .*; write {least} or more"):
            check_limit(find_dataset(name), least - 1)


def test_held_out_images_are_drawn():
    """Not the first of each class: photographs of one bird often follow each other. Each is drawn equally often."""
    labels = np.repeat([0, 1], 10)
    drawn = sum(held_out(labels, 2, seed).astype(int) for seed in range(1000))
    assert set(np.add.reduceat(held_out(labels, 2, 7), (0, 10))) == {2}
    assert abs(drawn - 200).max() < 6 * np.sqrt(1000 * 0.2 * 0.8)  # six standard deviations
    np.testing.assert_array_equal(held_out(labels, 2, 7), held_out(labels, 2, 7))


def test_every_tenth_class_as_many_of_each():
    """ImageNet's own numbers: 1,300 of most classes and 732 of the smallest; here class 20 is the smallest."""
    record = find_dataset("imagenet-100")
    counts = np.full(1000, 1300)
    counts[[20, 21]] = 732
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(1000), counts))
    rows = choose_rows(record, Split.TRAIN, labels)
    assert np.bincount(labels[rows] // 10).tolist() == [732] * 100
    assert np.flatnonzero(labels == 30)[:732].tolist() == rows[labels[rows] == 30].tolist()


def test_the_first_ten_of_each_class():
    """Shuffled, as the hub has ImageNet: all that is wanted lies at the beginning."""
    record = find_dataset("imagenet-10k")
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(1000), 50))
    rows = choose_rows(record, Split.TEST, labels)
    for label in (0, 7, 999):
        assert rows[labels[rows] == label].tolist() == np.flatnonzero(labels == label)[:10].tolist()
    assert np.bincount(labels[rows]).tolist() == [10] * 1000
    assert enough(record, labels[: rows[-1] + 1])
    assert not enough(record, labels[: rows[-1]])
    np.testing.assert_array_equal(choose_rows(record, Split.TEST, labels[: rows[-1] + 1]), rows)
