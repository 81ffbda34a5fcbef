"""The picture of `validate`: images, their maps, and the pixels that a run removes first."""

import numpy as np
import pytest
from PIL import Image

from roarbench.common.errors import CallerError
from roarbench.report.map_picture import draw_maps, mark_removed, write_map_picture

IMAGES = np.random.default_rng(0).normal(size=(6, 3, 10, 10)).astype(np.float32)
MAPS = np.arange(600.0).reshape(6, 10, 10)  # the last row of each map is most important


def test_removed_pixels_are_the_tenth_with_the_largest_values():
    marked = mark_removed(MAPS)
    assert marked[:, -1].all() and not marked[:, :-1].any()
    tied = mark_removed(np.zeros((1, 10, 10)))[0]
    assert tied.sum() == 10
    assert not tied[0].all(), "ties are broken at random, as in a run, and not from the top left"


def test_figure_shows_each_image_over_its_own_map_and_its_removed_pixels():
    axes = draw_maps("mine@00000000", IMAGES, MAPS).axes
    rows = [axes[4 * row : 4 * row + 4] for row in range(3)]
    assert [row[0].get_ylabel() for row in rows] == ["test image", "map", "removed first:\n10% of pixels"]
    for column in range(4):
        picture, drawn = (np.asarray(rows[row][column].images[0].get_array()) for row in (0, 1))
        low, high = IMAGES[column].min(), IMAGES[column].max()
        np.testing.assert_allclose(picture, (IMAGES[column].transpose(1, 2, 0) - low) / (high - low), rtol=1e-6)
        np.testing.assert_allclose(drawn, np.arange(100.0).reshape(10, 10) / 99, rtol=1e-12)
        assert (~np.ma.getmaskarray(rows[2][column].images[1].get_array())).sum(1).tolist() == [0] * 9 + [10]


def test_grey_images_single_images_and_constant_maps_are_drawn():
    assert len(draw_maps("$a_b$ 50% @", IMAGES[:1, :1], np.ones((1, 10, 10))).axes) == 4


def test_picture_replaces_only_an_earlier_picture(tmp_path):
    path = tmp_path / "mine-maps.png"
    for _ in range(2):
        write_map_picture("mine@00000000", IMAGES, MAPS, path)
    with Image.open(path) as picture:
        assert picture.size == (1056, 856)
    Image.new("L", (2, 2)).save(path)
    before = path.read_bytes()
    with pytest.raises(CallerError, match=r"is no picture of `roarbench validate`; move or rename it"):
        write_map_picture("mine@00000000", IMAGES, MAPS, path)
    assert path.read_bytes() == before
    with pytest.raises(CallerError, match="there is no folder"):
        write_map_picture("mine@00000000", IMAGES, MAPS, tmp_path / "missing" / "mine-maps.png")
