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
from PIL import Image

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.compute import torchvision_networks
from roarbench.compute.normalisation import Normalisation
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.decode_image import (
    UNREADABLE_PIXEL,
    check_depth,
    decode_image,
    describe_repairs,
    inspect_image,
    refuse_many_damaged_images,
)
from roarbench.datasets.image_folders import has_idx_files, read_idx
from roarbench.datasets.preprocessing import crop_centre_square, crop_to_pixels
from tests.helpers.deep_files import deep_png
from tests.helpers.tiny_set import TINY, png

EXACT = {"quality": 95, "subsampling": 0}  # of JPEG


def make_gradient_image(height=40, width=60):
    """An image of smooth colours, which JPEG changes little: red grows to the right, green downwards."""
    y, x = np.indices((height, width))
    return np.stack([4 * x, 5 * y, 120 + 0 * x], axis=2).astype(np.uint8)


def encode_image(image, form="PNG", **options):
    file = BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def test_decode_image_converts_cmyk_and_reports_other_colour_spaces():
    # JPEG stores CMYK inverted; a decoder that ignores the inversion returns the negative
    original = Image.fromarray(make_gradient_image(8, 8))
    pixels, repairs, _ = decode_image(encode_image(original.convert("CMYK"), "JPEG", **EXACT), TINY)
    assert repairs == ("of another colour space",)
    np.testing.assert_allclose(pixels, make_gradient_image(8, 8).transpose(2, 0, 1), atol=6)
    grey = replace(TINY, channels=1)
    found = {mode: decode_image(encode_image(original.convert(mode)), grey).repairs for mode in ("L", "P", "RGB")}
    assert found == {"L": (), "P": repairs, "RGB": repairs}
    assert describe_repairs({repairs[0]: 1200, "unreadable": 1}) == (
        "1,200 of another colour space: converted; 1 unreadable: grey throughout"
    )


@pytest.mark.parametrize(("form", "kind"), [("PNG", np.uint16), ("TIFF", np.int32)])
def test_decode_image_keeps_upper_8_bits_of_deep_grey(form, kind):
    """258 is 1 * 256 + 2, 65,535 is 255 * 256 + 255; of 12 bits 4,095 is 255 * 16 + 15."""
    values = np.tile(np.array([0, 255, 256, 258, 511, 512, 32_768, 65_535], kind), (8, 1))
    pixels, repairs, bits = decode_image(encode_image(Image.fromarray(values), form), TINY)
    assert (repairs, bits) == (("of more than 8 bits",), 16)
    np.testing.assert_array_equal(pixels, np.broadcast_to([0, 0, 1, 1, 1, 2, 128, 255], (3, 8, 8)))
    values = np.tile(np.array([0, 15, 16, 31, 32, 255, 4080, 4095], kind), (8, 1))
    content = encode_image(Image.fromarray(values), form)
    pixels, _, bits = decode_image(content, replace(TINY, depth=12))
    assert bits == inspect_image(content).bits == 12
    np.testing.assert_array_equal(pixels, np.broadcast_to([0, 0, 1, 1, 2, 15, 255, 255], (3, 8, 8)))


def test_decode_image_takes_upper_bytes_of_deep_colour_unless_they_are_too_few():
    bright = deep_png(np.broadcast_to(np.arange(8)[:, None] * 8192 + 255, (8, 8, 3)))
    pixels, repairs, _ = decode_image(bright, TINY)
    assert repairs == ("of more than 8 bits",) and pixels[2, 0].tolist() == [32 * x for x in range(8)]
    dark = deep_png(np.broadcast_to(4095, (8, 8, 3)))
    for content, record in ((dark, TINY), (bright, replace(TINY, depth=12))):
        assert decode_image(content, record).repairs == ("of 16 bits per channel, of which Pillow reads 8",)


def test_damaged_images_are_grey_and_reported_with_their_damage():
    planes = encode_image(Image.fromarray(make_gradient_image(8, 8)), "TIFF")  # Pillow reads noise from deep planes
    planes = planes.replace(struct.pack("<3H", 8, 8, 8), struct.pack("<3H", 16, 16, 16))
    planes = planes.replace(struct.pack("<HHIH", 284, 3, 1, 1), struct.pack("<HHIH", 284, 3, 1, 2))
    for content, kind in (
        (planes, "of 16 bits per channel, of which Pillow reads 8"),
        (encode_image(Image.fromarray(np.eye(8, dtype=np.float32)), "TIFF"), "of floats or negative numbers"),
        (encode_image(Image.fromarray(-np.eye(8, dtype=np.int32)), "TIFF"), "of floats or negative numbers"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "pointers of Git LFS, which `git lfs pull` fetches"),
        (encode_image(Image.new("1", (14_000, 14_000))), "unreadable"),
        (b"", "unreadable"),
        (b"<html>404</html>", "unreadable"),
        (png(make_gradient_image())[:20], "unreadable"),
    ):
        pixels, repairs, _ = decode_image(content, TINY)
        assert repairs == (kind,) == (inspect_image(content).damage,)
        assert (pixels == UNREADABLE_PIXEL).all() and pixels.shape == (3, 8, 8)
    said = "2 of 9 images of it cannot be decoded completely: a, b (2 truncated)"
    with pytest.raises(DataError, match=re.escape(said)):
        refuse_many_damaged_images(["a", "b"], 9, "it", {"truncated": 2, "of another colour space": 5})


@pytest.mark.parametrize(
    ("bits", "depth", "needed"),
    [(16, 0, 0), (13, 0, 0), (12, 0, 12), (9, 0, 10), (20, 0, 20), (13, 12, 14), (5, 8, 0), (12, 16, 0), (0, 0, 0)],
)
def test_check_depth_rejects_depth_that_mismatches_used_bits(bits, depth, needed):
    with pytest.raises(DataError, match=rf"write depth = {needed} under \[data\]") if needed else nullcontext():
        check_depth(bits, depth, "it")


@pytest.mark.parametrize("form", ["PNG", "GIF"])
def test_decode_image_uses_first_of_several_frames(form):
    first, second = (Image.new("RGB", (8, 8), colour) for colour in ((200, 0, 0), (0, 0, 200)))
    pixels, repairs, _ = decode_image(encode_image(first, form, save_all=True, append_images=[second]), TINY)
    assert repairs[-1] == "of several pictures"
    np.testing.assert_array_equal(pixels, np.broadcast_to(np.reshape([200, 0, 0], (3, 1, 1)), (3, 8, 8)))


# EXIF orientation (EXIF 2.3, 4.6.4 A), number of left turns that make the stored image from the upright one, and
# whether the upright one is mirrored first
@pytest.mark.parametrize(("orientation", "turns", "mirrored"), [(1, 0, 0), (3, 2, 0), (5, 1, 1), (6, 1, 0), (8, 3, 0)])
def test_decode_image_applies_exif_orientation(orientation, turns, mirrored):
    upright, exif = make_gradient_image(8, 8), Image.Exif()
    exif[0x0112] = orientation
    turned = np.rot90(upright[:, ::-1] if mirrored else upright, turns)
    file = encode_image(Image.fromarray(np.ascontiguousarray(turned)), "JPEG", exif=exif, **EXACT)
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
    assert np.ptp(small[:, 2:-2]) == 0 and 127 <= small[8, 8] <= 128  # the filter is cut at the border


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("sides", [(60, 40), (41, 77), (33, 33)])
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
    for damaged in (
        pack(IDX_IMAGES[:-1]),
        pack(IDX_IMAGES[:9]),
        pack(b"\x89PNG" + IDX_IMAGES[4:]),
        pack(IDX_IMAGES)[:-9],
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="cannot read|is not a complete IDX file of 3 dimension"):
            read_idx(tmp_path, Split.TRAIN)
