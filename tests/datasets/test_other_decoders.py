"""The files of the format corpus against tifffile, imagecodecs and OpenCV; `make soak` alone runs this module."""

import itertools
from dataclasses import replace
from importlib import import_module
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, features

from roarbench.datasets.decode_image import decode_image, is_damage
from tests.helpers.image_files import TINY
from tests.helpers.image_formats import encode_png, encode_pnm, encode_tiff

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore::UserWarning:PIL")]
SIDE = 37
KINDS = (
    (1, "u"),
    (2, "u"),
    (4, "u"),
    (8, "u"),
    (8, "i"),
    (12, "u"),
    (16, "u"),
    (16, "i"),
    (32, "u"),
    (32, "i"),
    (32, "f"),
)


def make_values(bits, kind, bands):
    rng = np.random.default_rng(bits)
    if kind == "f":
        return rng.normal(size=(SIDE, SIDE, bands)).astype(np.float32)
    first, end = (0, 2**bits) if kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return rng.integers(first, end, (SIDE, SIDE, bands))


def scale(values, window):
    low, high = window
    return np.rint((values.astype(np.float64) - low) / (high - low) * 255)


def test_tiff_agrees_with_tifffile():
    """Either tifffile's values in the same window or at the same depth, or a refusal."""
    tifffile, read, refused = import_module("tifffile"), 0, 0
    options = itertools.product(
        KINDS, (1, 3), "<>", (False, True), (0, 16), (0, 7), (False, True), (False, True), (0, 1)
    )
    for (bits, kind), bands, order, compressed, tile, strip, planes, big, photometric in options:
        if tile and strip or bands == 3 and photometric == 0 or planes and bands == 1:
            continue
        layout = {"order": order, "compressed": compressed, "tile": tile, "strip": strip, "planes": planes, "big": big}
        values = make_values(bits, kind, bands)
        content = encode_tiff(values, bits, kind=kind, photometric=2 if bands == 3 else photometric, **layout)
        other = tifffile.imread(BytesIO(content))
        other = other if bands == 1 else other.transpose(1, 2, 0) if planes else other
        other = other.reshape(SIDE, SIDE, bands)
        np.testing.assert_array_equal(other, values.astype(other.dtype))
        window = (float(other.min()), float(other.max())) if bits > 8 or kind != "u" else ()
        record = replace(TINY, size=SIDE, channels=bands, window=window)
        decoded = decode_image(content, record)
        if any(map(is_damage, decoded.repairs)):
            refused += 1
            continue
        read += 1
        expected = scale(other, window) if window else other.astype(np.float64) * (255 / (2**bits - 1))
        if photometric == 0 and bands == 1:
            expected = scale(2**bits - 1 - other.astype(np.int64), window) if window else 255 - expected
        np.testing.assert_allclose(
            decoded.pixels, expected.transpose(2, 0, 1), atol=1e-6, err_msg=f"{bits} {kind} {layout}"
        )
    print(f"{read} TIFF files read as tifffile reads them, {refused} refused")
    assert read > 300


def test_png_and_pnm_agree_with_opencv():
    cv2, read = import_module("cv2"), 0
    for bits, colour, interlaced in itertools.product((1, 2, 4, 8, 16), (0, 2, 4, 6), (False, True)):
        if colour and bits < 8:
            continue
        values = make_values(bits, "u", {0: 1, 2: 3, 4: 2, 6: 4}[colour])
        content = encode_png(values, bits, colour, interlaced)
        read += compare_with_opencv(cv2, content, colour in (2, 6))
    for largest, bands in itertools.product((255, 65535), (1, 3)):
        read += compare_with_opencv(cv2, encode_pnm(make_values(16, "u", bands) % (largest + 1), largest), bands == 3)
    print(f"{read} PNG and PNM files read as OpenCV reads them")
    # five depths of grey, and two of each of three other kinds, interlaced or not; then PNM
    assert read == 2 * 5 + 2 * 3 * 2 + 2 * 2


def compare_with_opencv(cv2, content, colour):
    flags = cv2.IMREAD_ANYDEPTH | (cv2.IMREAD_COLOR if colour else cv2.IMREAD_GRAYSCALE)
    other = cv2.imdecode(np.frombuffer(content, np.uint8), flags).reshape(SIDE, SIDE, -1)[..., ::-1]
    expected = other >> 8 if other.dtype == np.uint16 else other
    record = replace(TINY, size=SIDE, channels=3 if colour else 1)
    np.testing.assert_array_equal(decode_image(content, record).pixels, expected.transpose(2, 0, 1))
    return 1


def test_compressed_formats_agree_with_imagecodecs():
    """Encoders and decoders of imagecodecs; colour JPEG 2000 above 8 bits, and JPEG of 12 bits, are refused."""
    codecs = import_module("imagecodecs")
    y, x = np.mgrid[:SIDE, :SIDE]
    rgb = np.dstack([x * 6, y * 6, 255 - x * 6]).astype(np.int64)
    record, refusals = replace(TINY, size=SIDE), []
    for bits in (8, 10, 12, 16):
        values = (rgb * (2**bits - 1) // 255).astype(np.uint8 if bits == 8 else np.uint16)
        grey = np.ascontiguousarray(values[..., 0])
        for name, content, channels in (
            ("JPEG 2000", codecs.jpeg2k_encode(values, reversible=True, level=0, bitspersample=bits), 3),
            ("grey JPEG 2000", codecs.jpeg2k_encode(grey, reversible=True, level=0, bitspersample=bits), 1),
            ("PNG", codecs.png_encode(values), 3) if bits in (8, 16) else ("", b"", 0),
            ("AVIF", codecs.avif_encode(values, level=100, bitspersample=bits, pixelformat="444"), 3)
            if bits < 16
            else ("", b"", 0),
            ("WebP", codecs.webp_encode(values, lossless=True), 3) if bits == 8 else ("", b"", 0),
        ):
            if not name:
                continue
            decoded = decode_image(content, replace(record, channels=channels))
            if any(map(is_damage, decoded.repairs)):
                refusals.append((name, bits))
                continue
            other = codecs.imread(BytesIO(content)) if name != "WebP" else codecs.webp_decode(content)
            expected = other.reshape(SIDE, SIDE, channels) * (255 / (2**bits - 1))
            np.testing.assert_allclose(
                decoded.pixels, expected.transpose(2, 0, 1), atol=1 if bits > 8 else 0, err_msg=f"{name} {bits}"
            )
    without_avif = [refusal for refusal in refusals if refusal[0] != "AVIF"]  # older versions of Pillow read no AVIF
    assert without_avif == [("JPEG 2000", 10), ("JPEG 2000", 12), ("JPEG 2000", 16)]
    assert len(refusals) == 3 or "avif" not in features.get_supported_modules()
    twelve = codecs.jpeg_encode((rgb[..., 0] * 16).astype(np.uint16), bitspersample=12)
    assert decode_image(twelve, record).repairs == ("unsupported: JPEG of 12 bits per channel",)


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_jpeg_agrees_with_imagecodecs(mode):
    """Both use libjpeg-turbo, so that the pixels are equal; CMYK as Adobe stores it is inverted in the file."""
    codecs = import_module("imagecodecs")
    y, x = np.mgrid[:SIDE, :SIDE]
    image = Image.fromarray(np.dstack([x * 6, y * 6, 255 - x * 6]).astype(np.uint8)).convert(mode)
    file = BytesIO()
    image.save(file, "JPEG", quality=95, subsampling=0)
    other = codecs.jpeg8_decode(file.getvalue()).astype(np.float64)
    if mode == "CMYK":
        other = other[..., :3] * other[..., 3:] / 255  # inverted inks are what light passes
    pixels = decode_image(file.getvalue(), replace(TINY, size=SIDE, channels=1 if mode == "L" else 3)).pixels
    expected = other.reshape(SIDE, SIDE, -1).transpose(2, 0, 1)
    np.testing.assert_allclose(pixels, expected, atol=1 if mode == "CMYK" else 0)


@pytest.mark.parametrize("compression", ["lzw", "packbits", "deflate", "zstd", "jpeg"])
def test_compressed_tiff_agrees_with_tifffile(compression):
    """Files that tifffile writes; JPEG inside TIFF stores YCbCr."""
    tifffile = import_module("tifffile")
    y, x = np.mgrid[:SIDE, :SIDE]
    rgb = np.dstack([x * 6, y * 6, 255 - x * 6]).astype(np.uint8)
    for values in (rgb, rgb[..., 0], rgb[..., 0].astype(np.uint16) * 257):
        if compression == "jpeg" and values.dtype != np.uint8:
            continue
        file = BytesIO()
        photometric = "rgb" if values.ndim == 3 else "minisblack"
        tifffile.imwrite(file, values, compression=compression, photometric=photometric)
        other = tifffile.imread(BytesIO(file.getvalue())).reshape(SIDE, SIDE, -1)
        expected = other >> 8 if other.dtype == np.uint16 else other
        pixels = decode_image(file.getvalue(), replace(TINY, size=SIDE, channels=other.shape[2])).pixels
        np.testing.assert_allclose(pixels, expected.transpose(2, 0, 1), atol=2 if compression == "jpeg" else 0)
