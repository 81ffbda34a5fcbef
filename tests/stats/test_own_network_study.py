"""Parts of the study of own-network gain that no table shows: erased photographs, other images' maps, removed bits."""

import numpy as np
import torch

from studies.own_network.lab import ErasedImages, rectangles
from studies.own_network.make import grid, of_another_class, of_its_class, others_mean
from studies.own_network.retraining import removed_first


def test_every_second_image_loses_a_rectangle_of_2_to_33_percent_anew_at_each_reading():
    size, count = 64, 2000
    marked = rectangles(count, size, torch.Generator().manual_seed(0))
    rows, columns = marked.any(3).sum((1, 2)), marked.any(2).sum((1, 2))
    assert torch.equal(rows * columns, marked.sum((1, 2, 3)))  # nothing but rectangles
    erased = rows > 0
    assert abs(erased.float().mean() - 0.5) < 4 * 0.5 / count**0.5
    share, shape = (rows * columns)[erased] / size**2, rows[erased] / columns[erased]
    assert share.min() > 0.015 and share.max() < 0.35  # sides are rounded to pixels
    assert shape.min() > 0.25 and shape.max() < 4

    pixels = torch.full((8, 3, size, size), 100, dtype=torch.uint8)
    images = ErasedImages(pixels, torch.tensor([1.0, 2.0, 3.0]), torch.Generator().manual_seed(0))
    one, again = images.batch(torch.arange(8)), images.batch(torch.arange(8))
    gone = one[:, 0] == 1
    assert torch.equal(one[:, 2], torch.where(gone, 3.0, 100.0)) and not torch.equal(one, again)


def test_other_images_maps():
    maps, targets = torch.tensor([1.0, 2.0, 4.0, 8.0])[:, None], torch.tensor([0, 0, 1, 0])
    assert of_its_class(maps, targets).flatten().tolist() == [2, 8, 4, 1]
    assert of_another_class(maps, targets).flatten().tolist() == [4, 4, 8, 4]
    torch.testing.assert_close(others_mean(maps).flatten(), torch.tensor([14, 13, 11, 7]) / 3)


def test_a_grid_is_the_mean_over_all_squares_of_8_x_8_pixels():
    image = torch.arange(2 * 16 * 16.0).reshape(1, 2, 16, 16)
    found = grid(image)
    assert found[0, 1, 3, 5] == (image[0, 1, 3, 5] + image[0, 1, 3, 13] + image[0, 1, 11, 5] + image[0, 1, 11, 13]) / 4
    assert torch.equal(found, found.roll((8, 8), (2, 3))) and found[0, 1, 3, 5] != found[0, 1, 3, 6]


def test_nine_tenths_of_the_features_are_removed_the_most_important_first():
    importance = np.arange(40, dtype=np.float32)[None]
    assert np.unpackbits(removed_first(importance, np.array([5]))).tolist() == [0] * 4 + [1] * 36
