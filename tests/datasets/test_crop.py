import numpy as np
import pytest
from PIL import Image

from roarbench.datasets.crop import centre_square, to_pixels


def gradient(width: int, height: int) -> Image.Image:
    """Red counts columns, green counts rows."""
    y, x = np.indices((height, width))
    return Image.fromarray(np.stack([x, y, np.zeros_like(x)], axis=2).astype(np.uint8))


def test_an_image_of_the_size_is_unchanged() -> None:
    image = gradient(8, 8)
    np.testing.assert_array_equal(np.asarray(centre_square(image, 8)), np.asarray(image))


@pytest.mark.parametrize(("width", "height", "left", "top"), [(14, 8, 3, 0), (8, 13, 0, 2), (9, 8, 0, 0)])
def test_the_centre_is_kept(width: int, height: int, left: int, top: int) -> None:
    """By hand: (14 - 8) / 2 = 3 columns go on either side; of an odd rest the smaller part goes left or above."""
    square = np.asarray(centre_square(gradient(width, height), 8))
    assert square[0, :, 0].tolist() == list(range(left, left + 8))
    assert square[:, 0, 1].tolist() == list(range(top, top + 8))


def test_crop_keeps_a_share_of_the_short_side() -> None:
    """The paper's crop, short side 256 and centre 224, of an image of short side 256 resizes nothing."""
    square = np.asarray(centre_square(gradient(300, 256).convert("L").convert("RGB"), 224, crop=224 / 256))
    whole = np.asarray(gradient(300, 256).convert("L").convert("RGB"))
    np.testing.assert_array_equal(square, whole[16:240, 38:262])


def test_shrinking_does_not_alias() -> None:
    """Stripes of one pixel have no place at half the size: only grey is left."""
    stripes = np.tile(np.array([0, 255], np.uint8), (32, 16))
    small = np.asarray(centre_square(Image.fromarray(stripes), 16))
    assert np.ptp(small[:, 2:-2]) == 0  # the filter is cut at the border
    assert 127 <= small[8, 8] <= 128


def test_pixels_are_channels_first_and_rgb() -> None:
    pixels = to_pixels(gradient(8, 8), channels=3, size=8)
    assert pixels.shape == (3, 8, 8)
    assert pixels.dtype == np.uint8
    assert pixels[0, 5, 2] == 2
    assert pixels[1, 5, 2] == 5


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA", "1", "LA"])
def test_other_modes_become_rgb_or_grey(mode: str) -> None:
    image = Image.new("RGB", (8, 8), (255, 255, 255)).convert(mode)
    assert (to_pixels(image, channels=3, size=8) == 255).all()
    assert to_pixels(image, channels=1, size=8).shape == (1, 8, 8)
