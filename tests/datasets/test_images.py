"""Decoding of image files, unusual and damaged ones included, and of IDX files."""

import gzip
import re
import struct
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from io import BytesIO

import numpy as np
import pytest
from PIL import ExifTags, Image

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.compute import torchvision_networks
from roarbench.compute.prediction import Normalisation
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.decode_image import (
    UNREADABLE_PIXEL,
    check_depth,
    decode_image,
    inspect_image,
    refuse_many_damaged_images,
)
from roarbench.datasets.image_folders import has_idx_files, read_idx
from roarbench.datasets.preprocessing import crop_centre_square, crop_to_pixels
from tests.helpers.image_files import TINY, deep_png, deep_tiff, png

EXACT = {"quality": 95, "subsampling": 0}  # of JPEG


def make_gradient_image(height=40, width=60):
    """An image of smooth colours, which JPEG changes little: red grows to the right, green downwards."""
    y, x = np.indices((height, width))
    return np.stack([4 * x, 5 * y, 120 + 0 * x], axis=2).astype(np.uint8)


def encode_image(image, form="JPEG", **options):
    file = BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def test_decode_image_converts_cmyk_and_reports_colour_in_grey_data():
    # JPEG stores CMYK inverted; a decoder that ignores the inversion returns the negative
    original = Image.fromarray(make_gradient_image(8, 8))
    pixels, repairs, _ = decode_image(encode_image(original.convert("CMYK"), **EXACT), TINY)
    assert repairs == ("CMYK",)
    np.testing.assert_allclose(pixels, make_gradient_image(8, 8).transpose(2, 0, 1), atol=6)
    record = find_dataset("fashion-mnist")
    pixels, repairs, _ = decode_image(png(make_gradient_image(28, 28)), record)
    assert (repairs, pixels.shape) == (("colour",), (1, 28, 28))
    assert decode_image(png(make_gradient_image(28, 28)[..., 0]), record).repairs == ()


@pytest.mark.parametrize(("form", "kind"), [("PNG", np.uint16), ("TIFF", np.int32)])
def test_decode_image_keeps_upper_8_bits_of_deep_grey(form, kind):
    """258 is 1 * 256 + 2, 65,535 is 255 * 256 + 255; of 12 bits 4,095 is 255 * 16 + 15."""
    values = np.tile(np.array([0, 255, 256, 258, 511, 512, 32_768, 65_535], kind), (8, 1))
    pixels, repairs, bits = decode_image(encode_image(Image.fromarray(values), form), TINY)
    assert (repairs, bits) == (("of more than 8 bits",), 16)
    np.testing.assert_array_equal(pixels, np.broadcast_to([0, 0, 1, 1, 1, 2, 128, 255], (3, 8, 8)))
    values = np.tile(np.array([0, 15, 16, 31, 32, 255, 4080, 4095], kind), (8, 1))
    pixels, _, bits = decode_image(encode_image(Image.fromarray(values), form), replace(TINY, depth=12))
    assert bits == 12
    np.testing.assert_array_equal(pixels, np.broadcast_to([0, 0, 1, 1, 2, 15, 255, 255], (3, 8, 8)))


DEEP = np.array([0, 15, 16, 31, 32, 255, 4080, 4095])[:, None] + [0, 16, 4096]  # of 8 columns: red, green, blue


@pytest.mark.parametrize(
    "write",
    [
        deep_png,
        lambda values: deep_png(np.concatenate([values, np.full((8, 8, 1), 9)], 2)),  # dark where transparent
        deep_tiff,
        lambda values: deep_tiff(values, ">"),
        lambda values: deep_tiff(values, "<", packed=True),
        lambda values: deep_tiff(values, ">", packed=True),
    ],
)
def test_decode_image_keeps_upper_8_bits_of_deep_colour(write):
    """Of 12 bits 15 is 0 * 16 + 15, 4,095 is 255 * 16 + 15, larger values are white; of 16 bits 4,096 is 16."""
    content = write(np.broadcast_to(DEEP, (8, 8, 3)))
    pixels, repairs, bits = decode_image(content, replace(TINY, depth=12))
    assert (repairs, bits, inspect_image(content).bits) == (("of more than 8 bits",), 13, 13)
    by_hand = [0, 0, 1, 1, 2, 15, 255, 255], [1, 1, 2, 2, 3, 16, 255, 255], [255] * 8
    np.testing.assert_array_equal(pixels, np.broadcast_to(np.array(by_hand)[:, None], (3, 8, 8)))
    assert decode_image(content, TINY).pixels[2, 0].tolist() == [16, 16, 16, 16, 16, 16, 31, 31]


def test_decode_image_applies_exif_orientation_to_deep_colour():
    """With EXIF orientation 6, the top row of the file is the right column."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    content = deep_png(np.broadcast_to(DEEP, (8, 8, 3)), exif.tobytes().removeprefix(b"Exif\0\0"))
    pixels, repairs, _ = decode_image(content, replace(TINY, depth=12))
    assert set(repairs) == {"turned by EXIF", "of more than 8 bits"}
    assert pixels[0, :, 7].tolist() == [0, 0, 1, 1, 2, 15, 255, 255]


def test_decode_image_reads_both_bytes_of_grey_with_transparency_and_rejects_planes():
    """Pillow reads planes as noise."""
    said = "unsupported: TIFF of 16 bits per channel in planes"
    content = deep_tiff(np.broadcast_to(DEEP, (8, 8, 3)), planes=True)
    assert (decode_image(content, TINY).repairs, inspect_image(content).damage) == ((said,), said)
    grey = np.stack([np.broadcast_to(DEEP[:, 0], (8, 8)), np.full((8, 8), 65535)], 2)
    for values, depth in ((grey, 12), (grey * 16, 16)):
        decoded = decode_image(deep_png(values), replace(TINY, depth=depth))
        assert decoded.pixels[0, 0].tolist() == [0, 0, 1, 1, 2, 15, 255, 255]
        assert decoded.bits == depth


def test_damaged_images_are_reported_with_their_damage():
    dark, floats = np.eye(8, dtype=np.uint16), Image.fromarray(np.eye(8, dtype=np.float32))
    negative = Image.fromarray(-np.eye(8, dtype=np.int32))
    for image in (floats, negative):  # `new-suite` writes a window for such images
        content = encode_image(image, "TIFF")
        assert (inspect_image(content).damage, inspect_image(content).bits) == ("", 32)
        assert decode_image(content, TINY).repairs == ("of floats or negative numbers",)
    for content, kind in (
        (encode_image(Image.new("1", (14_000, 14_000)), "PNG"), "above 178,956,970 pixels"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "pointers of Git LFS, which `git lfs pull` fetches"),
        (b"", "unreadable"),
    ):
        assert inspect_image(content).damage == kind
        assert decode_image(content, TINY).repairs == (kind,)
        said = f"2 of 9 images of it cannot be decoded completely: a, b (2 {kind})"
        with pytest.raises(DataError, match=re.escape(said)):
            refuse_many_damaged_images(["a", "b"], 9, "it", {kind: 2, "grey": 5})
    flat, black = (decode_image(encode_image(Image.fromarray(values), "PNG"), TINY) for values in (dark, 0 * dark))
    assert flat.repairs[-1] == "of one value after conversion to 8 bits"
    assert black.repairs == ("of more than 8 bits",)


@pytest.mark.parametrize(
    ("bits", "depth", "said"),
    [
        (16, 0, ""),
        (13, 0, ""),
        (12, 0, "use 12 bits, but are read as 16 bits; write depth = 12 under [data]"),
        (9, 0, "use 9 bits, but are read as 16 bits; write depth = 10 under [data]"),
        (5, 0, "use 5 bits, but are read as 16 bits; write depth = 8 under [data]"),
        (20, 0, "use 20 bits, but are read as 16 bits; write depth = 20 under [data]"),
        (13, 12, "use 13 bits, but are read as 12 bits; write depth = 14 under [data]"),
        (5, 8, ""),
        (12, 16, ""),
        (0, 0, ""),
    ],
)
def test_check_depth_rejects_depth_that_mismatches_used_bits(bits, depth, said):
    with pytest.raises(DataError, match=re.escape(said)) if said else nullcontext():
        check_depth(bits, depth, "it")


@pytest.mark.parametrize(("mode", "said"), [("L", ()), ("1", ("of 1 bit",)), ("LA", ("palette or transparency",))])
def test_decode_image_reports_no_colour_for_grey_images_in_grey_data(mode, said):
    grey = replace(TINY, channels=1)
    assert decode_image(encode_image(Image.new(mode, (8, 8)), "PNG"), grey).repairs == said


@pytest.mark.parametrize(("form", "options"), [("PNG", {}), ("WEBP", {"lossless": True}), ("GIF", {})])
def test_decode_image_uses_first_of_several_frames(form, options):
    first, second = (Image.new("RGB", (8, 8), colour) for colour in ((200, 0, 0), (0, 0, 200)))
    pixels, repairs, _ = decode_image(encode_image(first, form, save_all=True, append_images=[second], **options), TINY)
    assert repairs[-1] == "of several pictures"
    np.testing.assert_array_equal(pixels, np.broadcast_to(np.reshape([200, 0, 0], (3, 1, 1)), (3, 8, 8)))


# By EXIF orientation (EXIF 2.3, 4.6.4 A): number of left turns that make the stored image from the upright one, and
# whether the upright one is mirrored first
TURNS = {
    1: (0, False),
    2: (0, True),
    3: (2, False),
    4: (2, True),
    5: (1, True),
    6: (1, False),
    7: (3, True),
    8: (3, False),
}


@pytest.mark.parametrize("orientation", TURNS)
def test_decode_image_applies_exif_orientation(orientation):
    upright, (turns, mirrored) = make_gradient_image(8, 8), TURNS[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned = np.rot90(upright[:, ::-1] if mirrored else upright, turns)
    file = encode_image(Image.fromarray(np.ascontiguousarray(turned)), exif=exif, **EXACT)
    pixels, repairs, _ = decode_image(file, TINY)
    assert repairs == (() if orientation == 1 else ("turned by EXIF",))
    np.testing.assert_allclose(pixels, upright.transpose(2, 0, 1), atol=6)


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_decode_image_keeps_top_of_truncated_image(form):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    file, record = encode_image(Image.fromarray(noise), form), find_dataset("imagenette64")
    whole = decode_image(file, record).pixels
    pixels, repairs, _ = decode_image(file[: len(file) // 2], record)
    assert repairs == ("truncated",)
    np.testing.assert_array_equal(pixels[:, :12], whole[:, :12])
    assert (pixels[:, 60:] != whole[:, 60:]).mean() > 0.9


def test_decode_image_fills_unreadable_image_with_grey():
    for content in (b"", b"\xff\xd8\xff", b"<html>404</html>", png(make_gradient_image())[:20]):
        pixels, repairs, _ = decode_image(content, TINY)
        assert (repairs, pixels.shape) == (("unreadable",), (3, 8, 8))
        assert (pixels == UNREADABLE_PIXEL).all()


def test_crop_centre_square_keeps_centre_and_antialiases():
    for (width, height), crop, side, left, top in (
        ((8, 13), 1, 8, 0, 2),
        ((23, 17), 7 / 8, 15, 4, 1),  # 7/8 of 17 is 14.875; of an odd rest the smaller part goes left or above
        ((29, 40), 7 / 8, 25, 2, 7),  # of 29 25.375
    ):
        square = np.asarray(crop_centre_square(Image.fromarray(make_gradient_image(height, width)), side, crop=crop))
        np.testing.assert_array_equal(square, make_gradient_image(height, width)[top : top + side, left : left + side])
    stripes = np.tile(np.array([0, 255], np.uint8), (32, 16))  # half the size cannot show them: only grey remains
    small = np.asarray(crop_centre_square(Image.fromarray(stripes), 16))
    assert np.ptp(small[:, 2:-2]) == 0  # the filter is cut at the border
    assert 127 <= small[8, 8] <= 128


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("sides", [(60, 40), (41, 77), (33, 33), (63, 32)])
def test_resize_and_crop_equal_torchvision(sides, interpolation):
    """Odd sides and borders count, too: torchvision rounds long sides down and borders to even numbers."""
    torchvision_networks.import_torchvision_models()  # also where its operators do not match torch
    functional = import_module("torchvision.transforms.functional")
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (*sides, 3), np.uint8))
    for resize, size in ((32, 28), (40, 33), (28, 28), (21, 16)):
        mode = functional.InterpolationMode(interpolation)
        expected = functional.center_crop(functional.resize(image, [resize], mode), [size])
        record = replace(TINY, size=size, resize=resize, interpolation=interpolation)
        np.testing.assert_array_equal(crop_to_pixels(image, record), np.asarray(expected).transpose(2, 0, 1))
        assert decode_image(encode_image(image, "PNG"), record).pixels.shape == (3, size, size)


def test_fingerprint_changes_with_normalisation_and_resize(tiny_folder, tmp_path):
    """Equal pixels with another normalisation are other data, because controls see other numbers."""
    asked = ({}, {"mean": (127.0,) * 3, "std": (128.0,) * 3}, {"resize": 9, "interpolation": "bicubic"})
    plain, stated, resized = (decode_dataset(replace(TINY, **one), tmp_path / "store", tiny_folder) for one in asked)
    assert (plain.test.pixels == stated.test.pixels).all() and not (plain.test.pixels == resized.test.pixels).all()
    assert len({plain.fingerprint, stated.fingerprint, resized.fingerprint}) == 3
    assert Normalisation.of(plain) == (plain.mean, plain.std)
    assert Normalisation.of(stated) == ((127.0,) * 3, (128.0,) * 3)
    assert stated.mean == plain.mean  # the fill of removed features


IDX_IMAGES = struct.pack(">HBBiii", 0, 8, 3, 2, 3, 4) + bytes(range(24))  # 2 images of 3 rows and 4 columns
IDX_LABELS = struct.pack(">HBBi", 0, 8, 1, 2) + b"\x07\x03"


@pytest.mark.parametrize(("pack", "end"), [(bytes, ""), (gzip.compress, ".gz")])
def test_read_idx_returns_images_and_rejects_damaged_files(tmp_path, pack, end):
    path = tmp_path / f"train-images-idx3-ubyte{end}"
    path.write_bytes(pack(IDX_IMAGES))
    (tmp_path / f"train-labels-idx1-ubyte{end}").write_bytes(pack(IDX_LABELS))
    pixels, labels = read_idx(tmp_path, Split.TRAIN)
    assert has_idx_files(tmp_path)
    assert (pixels.shape, pixels[1, 0, 2].tolist()) == ((2, 1, 3, 4), [20, 21, 22, 23])
    assert (labels.tolist(), labels.dtype) == ([7, 3], np.int64)
    for damaged, said in (
        (pack(IDX_IMAGES[:-1]), "has 23 values, but its header says (2, 3, 4)"),
        (pack(b"\x89PNG" + IDX_IMAGES[4:]), "starts with 89 50 4e 47, expected an IDX file of 3 dimension"),
        *([(pack(IDX_IMAGES)[:-9], "cannot read")] if end else []),
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=re.escape(said)):
            read_idx(tmp_path, Split.TRAIN)
