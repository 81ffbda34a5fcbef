"""`planted-corners`: stamped patterns, training images, and the maps that mark corners."""

from itertools import product

import numpy as np
import pytest
import torch

from roarbench.compute.augment import augment
from roarbench.compute.recipe import Augmentation
from roarbench.datasets import planted_images
from roarbench.estimators.estimator import Batch
from tests.helpers.networks import importance
from tests.helpers.trainings import seeded

SIZE = 32  # a patch has 4 x 4 pixels
PLACES = [*product((slice(0, 4), slice(28, 32)), repeat=2)]


def make_stamped_images(n=40):
    labels = np.arange(n) % 10
    return planted_images.stamp_class_in_all_corners(np.full((n, 3, SIZE, SIZE), 7, np.uint8), labels, 10), labels


def test_stamp_patterns_marks_class_in_every_corner():
    images, labels = make_stamped_images()
    patterns = planted_images.draw_corner_patterns(10, SIZE)
    assert len(np.unique(patterns.reshape(10, -1), axis=0)) == 10
    for rows, columns in PLACES:
        assert (images[:, :, rows, columns] == patterns[labels]).all()
        images[:, :, rows, columns] = 7
    assert (images == 7).all()


@pytest.mark.parametrize("number", range(5))
def test_corners_augmentation_keeps_class_pattern_only_in_own_corner(number):
    images, _ = make_stamped_images(400)
    shown = augment(torch.from_numpy(images).float(), Augmentation.CORNERS, seeded(10_000 + 2 * number)).numpy()
    for corner, (rows, columns) in enumerate(PLACES):
        right = (shown[:, :, rows, columns] == images[:, :, rows, columns]).all((1, 2, 3)).mean()
        assert right == 1 if corner == number % 4 else right < 0.2  # one class in ten by chance
    assert (shown[:, :, 4:28] == 7).all()


def find_marked_corners(name, seed, n=400):
    batch = Batch(torch.zeros(n, 3, SIZE, SIZE), torch.zeros(n, dtype=torch.int64), torch.arange(n), seed=seed)
    found = importance(name, None, batch)
    assert set(found.unique().tolist()) <= {0.0, 1.0}
    return np.array([[found[i, :, rows, columns].bool().all() for rows, columns in PLACES] for i in range(n)]), found


@pytest.mark.parametrize("number", range(4))
def test_corner_maps_mark_named_corners(number):
    one = np.eye(4, dtype=bool)
    for name, corner in (("corner-own", number), ("corner-next", (number + 1) % 4)):
        marked, found = find_marked_corners(name, 2 * number, 3)
        assert (marked == one[corner]).all()
        assert found.sum() == 3 * 3 * 16
    assert find_marked_corners("corner-all", 2 * number, 3)[0].all()
