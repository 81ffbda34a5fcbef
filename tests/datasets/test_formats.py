"""Every accepted format, bit depth, photometric tag and byte order against known pixels; others are refused by name."""

import base64
import itertools
import struct
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, features

from roarbench.datasets.decode_image import DEEP, INVISIBLE, RANGE, decode_image, describe_repairs, inspect_image
from tests.helpers.image_files import TINY, deep_png, deep_tiff, png
from tests.helpers.image_formats import encode_png, encode_pnm, encode_tiff

READS_AVIF = "avif" in features.get_supported_modules()
SIDE = 20  # more than a tile of 16, no multiple of 8
# Pillow warns of big-endian BigTIFF, which it does not read, and of transparency in palettes
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")
COLOUR = replace(TINY, size=SIDE)
GREY = replace(COLOUR, channels=1)
ALL_TIFFS = list(itertools.product("<>", (False, True), (0, 16), (0, 7), (False, True), (1, 2, 3)))


def make_values(bits, kind="u", bands=1):
    """Random values of the whole range, (20, 20, bands)."""
    rng = np.random.default_rng(bits)
    if kind == "f":
        return rng.normal(size=(SIDE, SIDE, bands)).astype(np.float32)
    first, end = (0, 2**bits) if kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return rng.integers(first, end, (SIDE, SIDE, bands))


def list_tiffs(bits, kind, bands=1, **options):
    """Yield values and TIFF files of all byte orders, compressions, tiles, strips and predictors."""
    values = make_values(bits, kind, bands)
    for order, compressed, tile, strip, big, predictor in ALL_TIFFS:
        differs = predictor == 1 or compressed and predictor == (3 if kind == "f" else 2) and bits in (8, 16, 32)
        if differs and not (tile and strip):
            layout = {"order": order, "compressed": compressed, "tile": tile, "strip": strip, "big": big}
            yield values, encode_tiff(values, bits, kind=kind, **layout, predictor=predictor, **options), order, big


def assert_decodes_or_is_named(content, record, expected, named):
    """The pixels are the expected ones, or the damage has one of these names."""
    decoded = decode_image(content, record)
    if named:
        assert decoded.repairs == (f"unsupported: {named}",) == (inspect_image(content).damage,)
    else:
        np.testing.assert_array_equal(decoded.pixels, expected.transpose(2, 0, 1), str(decoded.repairs))


@pytest.mark.parametrize("photometric", [0, 1])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_unsigned_grey_tiff_has_known_pixels(bits, photometric):
    """White is the largest value with photometric tag 1, and 0 with tag 0 (MinIsWhite), at every depth."""
    for values, content, order, big in list_tiffs(bits, "u", photometric=photometric):
        expected = values >> 8 if bits == 16 else values * (255 // (2**bits - 1))
        expected = 255 - expected if photometric == 0 else expected
        named = "BigTIFF of big-endian byte order" if big and order == ">" else ""
        if order == ">" and photometric == 0 and bits == 16:
            named = named or "big-endian TIFF of 16 bits whose smallest value is white"
        assert_decodes_or_is_named(content, GREY, expected, named)


@pytest.mark.parametrize(("bits", "kind"), [(8, "i"), (16, "i"), (32, "i"), (32, "u"), (32, "f")])
def test_tiff_of_other_values_has_known_pixels_in_a_window(bits, kind):
    """Floats, negative numbers and 32 bits are scaled by a window; without one, their range is unknown."""
    values = make_values(bits, kind)
    low, high = float(values.min()), float(values.max())
    record, count = replace(GREY, window=(low, high)), 0
    for values, content, order, big in list_tiffs(bits, kind):
        named = "BigTIFF of big-endian byte order" if big and order == ">" else ""
        if order == ">" and (bits, kind) == (32, "u"):
            named = named or "big-endian TIFF of 32 bits"
        expected = np.rint((values.astype(np.float64) - low) / (high - low) * 255)
        assert_decodes_or_is_named(content, record, expected, named)
        if not named:
            count += 1
            assert decode_image(content, record).repairs[0] == DEEP
            if kind != "u":
                assert decode_image(content, GREY).repairs == (RANGE,)
    assert count >= 6


@pytest.mark.parametrize(("bits", "planes"), [(8, False), (8, True), (16, False), (16, True)])
def test_colour_tiff_has_known_pixels(bits, planes):
    for values, content, order, big in list_tiffs(bits, "u", 3, planes=planes):
        named = "BigTIFF of big-endian byte order" if big and order == ">" else ""
        named = named or ("TIFF of 16 bits per channel in planes" if planes and bits == 16 else "")
        assert_decodes_or_is_named(content, COLOUR, values >> (bits - 8), named)


def test_packed_palette_and_cmyk_tiff_have_known_pixels():
    values = make_values(12)
    content = encode_tiff(values, 12)
    np.testing.assert_array_equal(decode_image(content, replace(GREY, depth=12)).pixels[0], values[..., 0] >> 4)
    colours = np.random.default_rng(0).integers(0, 256, (3, 256))
    values = make_values(8)
    content = encode_tiff(values, photometric=3, tags={320: (colours * 257).ravel().tolist()})
    np.testing.assert_array_equal(decode_image(content, COLOUR).pixels, colours[:, values[..., 0]])
    inks = make_values(8, bands=4)
    expected = (255 - inks[..., :3]) * (255 - inks[..., 3:]) / 255  # without colour management
    for bits, scale in ((8, 1), (16, 257)):
        pixels = decode_image(encode_tiff(inks * scale, bits, photometric=5), COLOUR).pixels
        np.testing.assert_allclose(pixels, expected.transpose(2, 0, 1), atol=1)


RGB_AND_MORE = make_values(8, bands=13)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (encode_tiff(RGB_AND_MORE, extra=[0] * 10), "TIFF with 13 bands"),
        (encode_tiff(RGB_AND_MORE * 257, 16, photometric=1, extra=[0] * 12), "TIFF with 13 bands"),
        (encode_tiff(RGB_AND_MORE[..., :4], extra=[0]), "TIFF with 4 bands"),
        (encode_tiff(RGB_AND_MORE[..., :4]), "TIFF with 4 bands"),
        (encode_tiff(RGB_AND_MORE[..., :5], extra=[2, 0]), "TIFF with 5 bands"),
        (encode_tiff(RGB_AND_MORE[..., :4], extra=[0], planes=True), "TIFF with 4 bands"),
        (encode_tiff(RGB_AND_MORE[..., :4] * 257, 16, extra=[0]), "TIFF with 4 bands"),
        (encode_tiff(RGB_AND_MORE[..., :2], extra=[0], photometric=1), "TIFF with 2 bands"),
        (encode_tiff(RGB_AND_MORE[..., :2], extra=[1]), "TIFF of 2 bands of 8 bits, multiplied by transparency"),
        (encode_tiff(RGB_AND_MORE[..., :3], photometric=8), "TIFF of CIE Lab colours"),
        (encode_tiff(RGB_AND_MORE[..., :3], photometric=6), "TIFF of YCbCr colours without JPEG compression"),
        (encode_tiff(make_values(32, "f"), 32, kind="f", photometric=0), "TIFF of 32 bits of floats whose smallest"),
        (encode_tiff(make_values(32, "f"), 64, kind="f"), "TIFF of 64 bits of floats"),
        (encode_tiff(make_values(32, "f"), 16, kind="f"), "TIFF of 16 bits of floats"),
        (encode_tiff(make_values(10), 10), "TIFF of 10 bits"),
        (encode_tiff(make_values(8), photometric=32803), "TIFF of a colour filter array"),
        (encode_tiff(np.full((SIDE, SIDE, 1), np.nan), 32, kind="f"), "floats with NaN or infinity, which"),
    ],
)
def test_tiff_of_other_kinds_is_refused_by_name(content, named):
    """Pillow reads some of them: it drops bands, takes the fourth for transparency, or returns Lab as RGB."""
    found = decode_image(content, COLOUR).repairs
    assert found == (inspect_image(content).damage,)
    assert found[0].startswith(f"unsupported: {named}")


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize(
    ("bits", "colour"),
    [*((bits, 0) for bits in (1, 2, 4, 8, 16)), *((bits, kind) for bits in (8, 16) for kind in (2, 4, 6))],
)
def test_png_has_known_pixels(bits, colour, interlaced):
    """Grey, RGB, and both with transparency, whose colours count although they are invisible."""
    values = make_values(bits, bands={0: 1, 2: 3, 4: 2, 6: 4}[colour])
    chunks = [(b"gAMA", struct.pack(">I", 45455)), (b"sBIT", bytes([bits] * values.shape[2]))]
    content = encode_png(values, bits, colour, interlaced, chunks)
    colours = values[..., :1] if values.shape[2] < 3 else values[..., :3]
    expected = colours >> 8 if bits == 16 else colours * (255 // (2**bits - 1))
    decoded = decode_image(content, GREY if values.shape[2] < 3 else COLOUR)
    np.testing.assert_array_equal(decoded.pixels, expected.transpose(2, 0, 1))
    assert (DEEP in decoded.repairs) == (bits == 16)


def test_palette_png_has_known_pixels():
    for bits in (1, 2, 4, 8):
        colours = np.random.default_rng(bits).integers(0, 256, (2**bits, 3))
        values, palette = make_values(bits), (b"PLTE", colours.astype(np.uint8).tobytes())
        for chunks in ([palette], [palette, (b"tRNS", b"\0\x80")]):
            pixels = decode_image(encode_png(values, bits, 3, chunks=chunks), COLOUR).pixels
            np.testing.assert_array_equal(pixels, colours[values[..., 0]].transpose(2, 0, 1))


@pytest.mark.parametrize("bands", [1, 3])
@pytest.mark.parametrize("largest", [1, 100, 255, 1023, 4095, 65535])
def test_pnm_has_known_pixels(bands, largest):
    """The header's largest value is white."""
    values = make_values(16, bands=bands) % (largest + 1)
    record = GREY if bands == 1 else COLOUR
    full = np.rint(values / largest * 65535).astype(int) >> 8 if largest > 255 else np.rint(values / largest * 255)
    content = encode_pnm(values, largest)
    np.testing.assert_array_equal(decode_image(content, record).pixels, full.transpose(2, 0, 1))
    if bands == 1:
        plain = b"P2 20 20 %d\n" % largest + b" ".join(b"%d" % value for value in values.ravel())
        np.testing.assert_array_equal(decode_image(plain, record).pixels, full.transpose(2, 0, 1))
    truncated = decode_image(content[: len(content) // 2], record)
    assert truncated.repairs[-1] in ("truncated", "unreadable")
    if truncated.repairs[-1] == "truncated":
        np.testing.assert_array_equal(truncated.pixels[:, :9], full.transpose(2, 0, 1)[:, :9])


def encode_bmp(rows, bits, masks=(), top_down=False):
    """A BMP of rows, bytes padded to four each, with the masks of red, green and blue."""
    data = b"".join(row + b"\0" * (-len(row) % 4) for row in (rows if top_down else rows[::-1]))
    start = 14 + 40 + 4 * len(masks)
    height = -SIDE if top_down else SIDE
    header = struct.pack("<IiiHHIIiiII", 40, SIDE, height, 1, bits, 3 if masks else 0, len(data), 0, 0, 0, 0)
    extra = struct.pack(f"<{len(masks)}I", *masks)
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start) + header + extra + data


@pytest.mark.parametrize("top_down", [False, True])
def test_bmp_has_known_pixels(top_down):
    """5 bits are scaled by 255 / 31, 6 bits by 255 / 63."""
    values = make_values(8, bands=3)
    rows = [row[:, ::-1].astype(np.uint8).tobytes() for row in values]
    pixels = decode_image(encode_bmp(rows, 24, top_down=top_down), COLOUR).pixels
    np.testing.assert_array_equal(pixels, values.transpose(2, 0, 1))
    for widths in ((5, 6, 5), (5, 5, 5)):
        parts = [values[..., band] >> (8 - width) for band, width in enumerate(widths)]
        shifts = [widths[1] + widths[2], widths[2], 0]
        words = sum(part << shift for part, shift in zip(parts, shifts, strict=True))
        masks = [2**width - 1 << shift for width, shift in zip(widths, shifts, strict=True)]
        decoded = decode_image(encode_bmp([row.astype("<u2").tobytes() for row in words], 16, masks, top_down), COLOUR)
        for band, (part, width) in enumerate(zip(parts, widths, strict=True)):
            np.testing.assert_allclose(decoded.pixels[band], part * 255 / (2**width - 1), atol=1)
        assert decoded.repairs == ()
    masks = (0xFF0000, 0xFF00, 0xFF)
    rows = [np.insert(row[:, ::-1], 3, 0, axis=1).astype(np.uint8).tobytes() for row in values]
    pixels = decode_image(encode_bmp(rows, 32, masks, top_down), COLOUR).pixels
    np.testing.assert_array_equal(pixels, values.transpose(2, 0, 1))


def encode_with_pillow(image, form, **options):
    file = BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def test_jpeg_2000_has_known_pixels_or_is_refused_by_name():
    """Pillow wraps RGB of more than 8 bits, and returns 240 for white of 4 bits."""
    rgb, grey = make_values(8, bands=3).astype(np.uint8), make_values(16).astype(np.uint16)
    content = encode_with_pillow(Image.fromarray(rgb), "JPEG2000", irreversible=False)
    np.testing.assert_array_equal(decode_image(content, COLOUR).pixels, rgb.transpose(2, 0, 1))
    deep = encode_with_pillow(Image.fromarray(grey[..., 0]), "JPEG2000", irreversible=False)
    np.testing.assert_array_equal(decode_image(deep, GREY).pixels[0], grey[..., 0] >> 8)
    for bits, named in ((12, "12"), (16, "16"), (4, "4")):
        start = content.index(b"\xff\x4f\xff\x51") + 42
        changed = bytearray(content)
        changed[start : start + 9 : 3] = bytes([bits - 1] * 3)
        found = decode_image(bytes(changed), COLOUR).repairs
        assert found == (f"unsupported: JPEG 2000 with 3 channels of {named} bits",)
    four = make_values(8, bands=4).astype(np.uint8)
    stream = encode_with_pillow(Image.fromarray(four), "JPEG2000", irreversible=False, no_jp2=True)
    assert decode_image(stream, COLOUR).repairs == ("unsupported: JPEG 2000 with 4 bands",)


@pytest.mark.parametrize("form", ["WEBP", "PNG", "GIF", "TIFF", "BMP", "AVIF"])
def test_formats_written_by_pillow_have_known_pixels(form):
    if form == "AVIF" and not READS_AVIF:
        pytest.skip("this Pillow reads no AVIF")
    values = make_values(8, bands=3).astype(np.uint8) & 0xE0 if form == "GIF" else make_values(8, bands=3)
    values = values % 4 * 80 if form == "GIF" else values  # at most 64 colours
    image = Image.fromarray(values.astype(np.uint8))
    options = {"WEBP": {"lossless": True}, "AVIF": {"quality": 100, "subsampling": "4:4:4"}}.get(form, {})
    pixels = decode_image(encode_with_pillow(image, form, **options), COLOUR).pixels
    np.testing.assert_allclose(pixels, values.transpose(2, 0, 1), atol=6 if form == "AVIF" else 0)


# by imagecodecs 2026.3.6: AVIF with 10 and 12 bits, JPEG of 12 bits, JPEG-LS and lossless JPEG, of 16 x 16 pixels
AVIF10 = (
    "AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUEAAADrbWV0YQAAAAAAAAAhaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAAAAAAAAAO"
    "cGl0bQAAAAAAAQAAAB5pbG9jAAAAAEQAAAEAAQAAAAEAAAETAAAAjAAAAChpaW5mAAAAAAABAAAAGmluZmUCAAAAAAEAAGF2MDFDb2xvcgAA"
    "AABqaXBycAAAAEtpcGNvAAAAFGlzcGUAAAAAAAAAEAAAABAAAAAQcGl4aQAAAAADCgoKAAAADGF2MUOBIEAAAAAAE2NvbHJuY2x4AAIAAgAA"
    "gAAAABdpcG1hAAAAAAAAAAEAAQQBAoMEAAAAlG1kYXQSAAoIOAz/+cCAgCQyfhAAAHHrce13mO5vUrnhPA41PupAqDNFWGXOaUY1uvc+nNFc"
    "Ue3v/24LEuGzb3thk5dg7ewn9JUURU0PfK4g+jb0kRgzmdqrfLE+fLnTxpC1ojDkW814RLmhGK4dGNjdc4G59umYv6Hj67bYKflGL9MEOVT/"
    "VOibmbbHdhQ02A=="
)
AVIF12 = (
    "AAAAHGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZgAAAOttZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAAA5waXRt"
    "AAAAAAABAAAAHmlsb2MAAAAARAAAAQABAAAAAQAAAQ8AAACfAAAAKGlpbmYAAAAAAAEAAAAaaW5mZQIAAAAAAQAAYXYwMUNvbG9yAAAAAGpp"
    "cHJwAAAAS2lwY28AAAAUaXNwZQAAAAAAAAAQAAAAEAAAABBwaXhpAAAAAAMMDAwAAAAMYXYxQ4FAYAAAAAATY29scm5jbHgAAgACAACAAAAA"
    "F2lwbWEAAAAAAAAAAQABBAECgwQAAACnbWRhdBIACglYDP/40CAgCIAyjwEQAABx63Htd5ibwuQr4U7gsWNT7p75+SP2OipT3mlGKf/BS2Qk"
    "wi3FHt5ZHnyKqsbA9W94dnfrIYC/Ozr0/ttyDToZ1DTwgB0/+zFbkkwco5xgA1n+T0VbKd+aEgBxpgnZOm1KHgkt/+l4efoTzR3youqVyNSK"
    "B2iWdAa/f9OdAWxP2d+hN/0JoIEs59JjkA=="
)
JPEG12 = (
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAIBAQEBAQIBAQECAgICAgQDAgICAgUEBAMEBgUGBgYFBgYGBwkIBgcJBwYGCAsICQoKCgoKBggL"
    "DAsKDAkKCgr/wQALDAAQABABAREA/8QAFQABAQAAAAAAAAAAAAAAAAAADg3/xAAYEAACAwAAAAAAAAAAAAAAAAAADUiGw//aAAgBAQAAPwCb"
    "/rcaBdaxEAAtxoF1rEP/AOtxoF1rEQAC3GgXWsT/2Q=="
)
JLS = (
    "/9j/6AAgU1BJRkYAAgAAAQAAABAAAAAQCggGAQAAASwAAAEs/+gACAAAAAH/2P/3AAsIABAAEAEBEQD/2gAIAQEAAAAAgHAcB3W2V1U0f93v"
    "Mlf/S/99f/8//3//f/9//3//f/9//3//f/9//3//f/9//P/Z"
)
LJPEG16 = (
    "/9j/xAAWAAEBAQAAAAAAAAAAAAAAAAAADRD/wwALEAAQABABABEA/9oACAEAAAYAANQAKABQAKABQAKABQAKABQAKABQAKABQAKABQAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/9k="
)


@pytest.mark.skipif(not READS_AVIF, reason="this Pillow reads no AVIF")
@pytest.mark.parametrize("content", [AVIF10, AVIF12])
def test_avif_of_10_and_12_bits_has_known_pixels(content):
    """libavif scales the file's depth to 8 bits."""
    y, x = np.mgrid[:16, :16] * 16
    pixels = decode_image(base64.b64decode(content), replace(TINY, size=16)).pixels
    np.testing.assert_allclose(pixels, np.stack([x, y, 255 - x]), atol=1)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (base64.b64decode(JPEG12), "JPEG of 12 bits per channel"),
        (base64.b64decode(LJPEG16), "lossless JPEG of 16 bits per channel"),
        (base64.b64decode(JLS), "JPEG-LS"),
        (b"\0" * 128 + b"DICM", "DICOM"),
        (b"\0\0\0\x18ftypheic", "HEIC"),
        (encode_with_pillow(Image.new("RGB", (8, 8)), "TGA"), "TGA"),
        (encode_with_pillow(Image.new("RGB", (8, 8)), "PCX"), "PCX"),
        (b"P3 1 1 1023 0 1 2", "plain PPM of more than 8 bits"),
        (b"PyRGBA 1 1 255\n\0\0\0\0", "PNM of the kind Py"),
        (b"P0CMYK 1 1 255\n\0\0\0\0", "PNM of the kind P0"),
    ],
)
def test_other_formats_are_refused_by_name(content, named):
    assert decode_image(content, COLOUR).repairs == (f"unsupported: {named}",) == (inspect_image(content).damage,)
    said = describe_repairs({"grey": 1, f"unsupported: {named}": 2})
    assert said == f"1 grey: converted; 2 unsupported: {named}: grey throughout"


def test_image_that_is_visible_in_its_transparency_alone_is_damaged():
    """An icon of black ink on transparent black is uniformly black without its transparency."""
    ink = np.zeros((SIDE, SIDE, 4), np.uint8)
    ink[5:9, 3:12, 3] = 255
    assert INVISIBLE in decode_image(png(ink), COLOUR).repairs
    assert INVISIBLE in decode_image(encode_png(ink[..., 2:], 8, 4), GREY).repairs
    coloured = ink.copy()
    coloured[4:6, :, 0] = 200
    assert INVISIBLE not in decode_image(png(coloured), COLOUR).repairs
    palette = [(b"PLTE", bytes(6)), (b"tRNS", b"\0\xff")]
    assert INVISIBLE in decode_image(encode_png(ink[..., 3:] >> 7, 1, 3, chunks=palette), COLOUR).repairs
    ink[::2, :, :3] = 10  # as good as black
    assert INVISIBLE in decode_image(png(ink), COLOUR).repairs
    ink[..., 3] = 255
    assert INVISIBLE not in decode_image(png(ink), COLOUR).repairs  # a black photograph


def test_helpers_agree_with_each_other():
    """Two encoders of the helpers were written apart."""
    values = make_values(16, bands=3)
    for content in (deep_png(values), deep_tiff(values), encode_png(values, 16, 2), encode_tiff(values, 16)):
        np.testing.assert_array_equal(decode_image(content, COLOUR).pixels, (values >> 8).transpose(2, 0, 1))
