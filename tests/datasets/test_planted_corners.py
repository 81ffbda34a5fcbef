"""`planted-corners`: what is stamped where, what a network in training sees of it, and the maps that mark it."""

import numpy as np
import pytest
import torch

from roarbench.compute.augment import augment
from roarbench.compute.recipe import Augmentation
from roarbench.datasets import planted_corners
from roarbench.estimators.estimator import Batch
from tests.helpers.networks import importance
from tests.helpers.streamed import seeded

SIZE = 32  # a patch has 4 x 4 pixels
PLACES = [(slice(0, 4), slice(0, 4)), (slice(0, 4), slice(28, 32)), (slice(28, 32), slice(0, 4)),
    (slice(28, 32), slice(28, 32))]  # fmt: skip


def stamped(n=40):
    labels = np.arange(n) % 10
    return planted_corners.stamp_patterns(np.full((n, 3, SIZE, SIZE), 7, np.uint8), labels, 10), labels


def test_every_corner_names_the_class_and_nothing_else_changes():
    images, labels = stamped()
    patterns = planted_corners.draw_class_patterns(10, SIZE)
    assert len(np.unique(patterns.reshape(10, -1), axis=0)) == 10
    for rows, columns in PLACES:
        assert (images[:, :, rows, columns] == patterns[labels]).all()
        images[:, :, rows, columns] = 7
    assert (images == 7).all()


@pytest.mark.parametrize("number", range(5))
def test_a_network_is_shown_the_true_class_in_its_own_corner_alone(number):
    images, _ = stamped(400)
    shown = augment(torch.from_numpy(images).float(), Augmentation.CORNERS, seeded(10_000 + 2 * number)).numpy()
    for corner, (rows, columns) in enumerate(PLACES):
        right = (shown[:, :, rows, columns] == images[:, :, rows, columns]).all((1, 2, 3)).mean()
        assert right == 1 if corner == number % 4 else right < 0.2  # one class in ten by chance
    assert (shown[:, :, 4:28] == 7).all()


def marks(name, seed, n=400):
    batch = Batch(torch.zeros(n, 3, SIZE, SIZE), torch.zeros(n, dtype=torch.int64), torch.arange(n), seed=seed)
    found = importance(name, None, batch)
    assert set(found.unique().tolist()) <= {0.0, 1.0}
    return np.array([[found[i, :, rows, columns].bool().all() for rows, columns in PLACES] for i in range(n)]), found


@pytest.mark.parametrize("number", range(4))
def test_maps_mark_the_corners_that_they_name(number):
    one = np.eye(4, dtype=bool)
    for name, corner in (("corner-own", number), ("corner-next", (number + 1) % 4)):
        marked, found = marks(name, 2 * number, 3)
        assert (marked == one[corner]).all()
        assert found.sum() == 3 * 3 * 16
    assert marks("corner-all", 2 * number, 3)[0].all()


def test_mixed_maps_are_nested():
    shares = [marks(f"corner-mixed-{share}", 2)[0][:, 2] for share in (25, 50, 75)]
    assert [abs(moved.mean() - share) < 0.08 for moved, share in zip(shares, (0.25, 0.5, 0.75), strict=True)] == [
        True
    ] * 3
    assert all((less <= more).all() for less, more in zip(shares, shares[1:], strict=False))
