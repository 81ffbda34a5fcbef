import numpy as np
import pytest
from PIL import Image

from roarbench.datasets.crop import centre_square, to_pixels


def gradient(width: int, height: int) -> Image.Image:
    """Red counts columns, green counts rows."""
    y, x = np.indices((height, width))
    return Image.fromarray(np.stack([x, y, np.zeros_like(x)], axis=2).astype(np.uint8))


@pytest.mark.parametrize(("width", "height", "left", "top"), [(14, 8, 3, 0), (8, 13, 0, 2), (9, 8, 0, 0)])
def test_the_centre_is_kept(width: int, height: int, left: int, top: int) -> None:
    """By hand: (14 - 8) / 2 = 3 columns go on either side; of an odd rest the smaller part goes left or above."""
    square = np.asarray(centre_square(gradient(width, height), 8))
    assert square[0, :, 0].tolist() == list(range(left, left + 8))
    assert square[:, 0, 1].tolist() == list(range(top, top + 8))


def test_shrinking_does_not_alias() -> None:
    """Stripes of one pixel have no place at half the size: only grey is left."""
    stripes = np.tile(np.array([0, 255], np.uint8), (32, 16))
    small = np.asarray(centre_square(Image.fromarray(stripes), 16))
    assert np.ptp(small[:, 2:-2]) == 0  # the filter is cut at the border
    assert 127 <= small[8, 8] <= 128


def keys(x: float) -> float:
    """Cubic convolution with a = -1/2 (Keys 1981), the bicubic filter of image libraries."""
    x = abs(x)
    if x < 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def slow_weights(source: int, start: int, length: int, target: int) -> np.ndarray:
    """How much each of `source` pixels counts in each target pixel, (target, source); a filter as wide as the step.

    The step is at least one pixel, weights are made to sum to 1, and a pixel counts where its centre is nearer than two
    steps; beyond the image, not beyond the part that is kept, there is nothing.
    """
    step = length / target
    weights = np.zeros((target, source))
    for place in range(target):
        centre = start + (place + 0.5) * step
        for pixel in range(source):
            weights[place, pixel] = keys((pixel + 0.5 - centre) / max(step, 1))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("width", "height", "left", "top", "side"),
    # by hand: 7/8 of 17 is 14.875, of 29 25.375, of 8 7; half of what is left goes left and above
    [(23, 17, 4, 1, 15), (29, 40, 2, 7, 25), (8, 9, 0, 1, 7)],
)
def test_crop_and_resize_slowly(width: int, height: int, left: int, top: int, side: int) -> None:
    """Of values that no filter takes out of [0, 255], where Pillow would cut them off between the two directions."""
    pixels = np.random.default_rng(0).integers(80, 176, (height, width, 3), np.uint8)
    rows, columns = slow_weights(height, top, side, 12), slow_weights(width, left, side, 12)
    expected = np.einsum("yh,hwc,xw->yxc", rows, pixels.astype(float), columns)
    found = np.asarray(centre_square(Image.fromarray(pixels), 12, crop=7 / 8))
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=1.2
    )  # half a value is rounded off before the second direction, and after it


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA", "1", "LA"])
def test_other_modes_become_rgb_or_grey(mode: str) -> None:
    image = Image.new("RGB", (8, 8), (255, 255, 255)).convert(mode)
    assert (to_pixels(image, channels=3, size=8) == 255).all()
    assert to_pixels(image, channels=1, size=8).shape == (1, 8, 8)
