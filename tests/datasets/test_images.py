from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.one_image import FILL, centre_square, decode_image, to_pixels
from tests.helpers.tiny_set import TINY, png


def photograph(height=40, width=60):
    """Smooth colours, so that JPEG changes little: red grows to the right, green downwards."""
    y, x = np.indices((height, width))
    return np.stack([4 * x, 5 * y, 120 + 0 * x], axis=2).astype(np.uint8)


def jpeg(image, **options):
    stored = BytesIO()
    image.save(stored, "JPEG", quality=95, subsampling=0, **options)
    return stored.getvalue()


def test_cmyk_keeps_its_colours_and_colour_among_grey_images_is_told():
    # JPEG of CMYK is stored inverted; a decoder that forgets it gives the negative
    original = Image.fromarray(photograph(8, 8))
    pixels, repairs = decode_image(jpeg(original.convert("CMYK")), TINY)
    assert repairs == ("CMYK",)
    np.testing.assert_allclose(pixels, photograph(8, 8).transpose(2, 0, 1), atol=6)
    record = find_dataset("fashion-mnist")
    assert decode_image(png(photograph(28, 28)), record).repairs == ("colour",)
    assert decode_image(png(photograph(28, 28)[..., 0]), record).repairs == ()


@pytest.mark.parametrize(("form", "kind"), [("PNG", np.uint16), ("TIFF", np.int32)])
def test_of_16_bits_the_upper_8_are_kept(form, kind):
    """By hand: 258 is 1 * 256 + 2, 65,535 is 255 * 256 + 255."""
    values = np.tile(np.array([0, 255, 256, 258, 511, 512, 32_768, 65_535], kind), (8, 1))
    stored = BytesIO()
    Image.fromarray(values).save(stored, form)
    pixels, repairs = decode_image(stored.getvalue(), TINY)
    assert repairs == ("of 16 bits",)
    np.testing.assert_array_equal(pixels, np.broadcast_to([0, 0, 1, 1, 1, 2, 128, 255], (3, 8, 8)))


@pytest.mark.parametrize("form", ["PNG", "WEBP", "GIF"])
def test_of_several_pictures_the_first_is_used(form):
    first, second = (Image.new("RGB", (8, 8), colour) for colour in ((200, 0, 0), (0, 0, 200)))
    stored = BytesIO()
    first.save(stored, form, save_all=True, append_images=[second], **({"lossless": True} if form == "WEBP" else {}))
    pixels, repairs = decode_image(stored.getvalue(), TINY)
    assert repairs[-1] == "of several pictures"
    np.testing.assert_array_equal(pixels, np.broadcast_to(np.reshape([200, 0, 0], (3, 1, 1)), (3, 8, 8)))


# Where EXIF's orientation puts the first row and the first column of what is stored (EXIF 2.3, 4.6.4 A): the stored
# image is what the turn takes to the upright one
STORED = {
    1: lambda upright: upright,
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.transpose(1, 0, 2),
    6: lambda upright: np.rot90(upright, 1),
    7: lambda upright: upright[::-1, ::-1].transpose(1, 0, 2),
    8: lambda upright: np.rot90(upright, -1),
}


@pytest.mark.parametrize("orientation", STORED)
def test_turned_images_are_upright(orientation):
    upright = photograph(8, 8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = np.ascontiguousarray(STORED[orientation](upright))
    pixels, repairs = decode_image(jpeg(Image.fromarray(stored), exif=exif), TINY)
    assert repairs == (() if orientation == 1 else ("turned by EXIF",))
    np.testing.assert_allclose(pixels, upright.transpose(2, 0, 1), atol=6)


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_of_a_truncated_image_the_top_is_used(form):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    stored = BytesIO()
    Image.fromarray(noise).save(stored, form)
    record = find_dataset("imagenette64")
    whole = decode_image(stored.getvalue(), record).pixels
    half = stored.getvalue()[: len(stored.getvalue()) // 2]
    pixels, repairs = decode_image(half, record)
    assert repairs == ("truncated",)
    np.testing.assert_array_equal(pixels[:, :12], whole[:, :12])
    assert (pixels[:, 60:] != whole[:, 60:]).mean() > 0.9
    np.testing.assert_array_equal(decode_image(half, record).pixels, pixels)


@pytest.mark.parametrize("content", [b"", b"\xff\xd8\xff", b"<html>404</html>", png(photograph())[:20]])
def test_what_cannot_be_read_is_grey(content):
    pixels, repairs = decode_image(content, TINY)
    assert repairs == ("unreadable",)
    assert pixels.shape == (3, 8, 8)
    assert (pixels == FILL).all()


@pytest.mark.parametrize(
    ("width", "height", "crop", "side", "left", "top"),
    [(14, 8, 1, 8, 3, 0), (8, 13, 1, 8, 0, 2), (23, 17, 7 / 8, 15, 4, 1), (29, 40, 7 / 8, 25, 2, 7)],
)
def test_the_centre_is_kept(width, height, crop, side, left, top):
    """By hand: 7/8 of 17 is 14.875, of 29 25.375; of an odd rest the smaller part goes left or above."""
    square = np.asarray(centre_square(Image.fromarray(photograph(height, width)), side, crop=crop))
    np.testing.assert_array_equal(square, photograph(height, width)[top : top + side, left : left + side])


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
