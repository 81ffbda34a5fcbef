import numpy as np
import pytest
from PIL import Image

from roarbench.datasets.one_image import centre_square, to_pixels


def gradient(width, height):
    """Red counts columns, green counts rows."""
    y, x = np.indices((height, width))
    return Image.fromarray(np.stack([x, y, np.zeros_like(x)], axis=2).astype(np.uint8))


@pytest.mark.parametrize(
    ("width", "height", "crop", "side", "left", "top"),
    [(14, 8, 1, 8, 3, 0), (8, 13, 1, 8, 0, 2), (23, 17, 7 / 8, 15, 4, 1), (29, 40, 7 / 8, 25, 2, 7)],
)
def test_the_centre_is_kept(width, height, crop, side, left, top):
    """By hand: 7/8 of 17 is 14.875, of 29 25.375; of an odd rest the smaller part goes left or above."""
    square = np.asarray(centre_square(gradient(width, height), side, crop=crop))
    assert square[0, :, 0].tolist() == list(range(left, left + side))
    assert square[:, 0, 1].tolist() == list(range(top, top + side))


def test_shrinking_does_not_alias():
    """Stripes of one pixel have no place at half the size: only grey is left."""
    stripes = np.tile(np.array([0, 255], np.uint8), (32, 16))
    small = np.asarray(centre_square(Image.fromarray(stripes), 16))
    assert np.ptp(small[:, 2:-2]) == 0  # the filter is cut at the border
    assert 127 <= small[8, 8] <= 128


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA", "1", "LA"])
def test_other_modes_become_rgb_or_grey(mode):
    image = Image.new("RGB", (8, 8), (255, 255, 255)).convert(mode)
    assert (to_pixels(image, channels=3, size=8) == 255).all()
    assert to_pixels(image, channels=1, size=8).shape == (1, 8, 8)
