"""`Preprocessing`: photographs cropped and normalised as in a suite's file."""

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

import roarbench
from tests.helpers.image_files import deep_png
from tests.helpers.image_formats import encode_png, encode_tiff

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 12, 3), np.uint8)


@pytest.fixture
def file(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "one.png")
    return tmp_path / "one.png"


@pytest.mark.parametrize("scale", (1, 255))
def test_preprocessing_crops_then_normalises(file, scale):
    """The short side already has 9 pixels, so images are only cropped, by two columns on either side."""
    moments = {"mean": [0.4 * scale, 0.5 * scale, 0.6 * scale], "std": [0.5 * scale] * 3}
    prepare = roarbench.Preprocessing(9, 8, "bicubic", **moments)
    found = prepare([file, str(file), Image.open(file)])
    expected = (PIXELS[0:8, 2:10].transpose(2, 0, 1) / 255 - np.reshape([0.4, 0.5, 0.6], (3, 1, 1))) / 0.5
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [expected] * 3, atol=1e-6)  # float32
    grey = roarbench.Preprocessing(9, 8, "bicubic", mean=[0.5], std=[0.5])([file])
    assert grey.shape == (1, 1, 8, 8)


def test_preprocessing_of_torchvision_weights_matches_documentation():
    """torchvision documents a bilinear resize to 232 pixels and a central crop of 224."""
    found = roarbench.Preprocessing.of("torchvision:resnet50/IMAGENET1K_V2")
    assert (found.resize, found.crop, found.interpolation) == (232, 224, "bilinear")
    assert np.array(found.std) / 255 == pytest.approx([0.229, 0.224, 0.225])


def make_preprocessing(resize, crop, interpolation="box", std=0.5):
    return roarbench.Preprocessing(resize, crop, interpolation, mean=[0.5], std=[std])


def test_preprocessing_scales_or_rejects_16_bit_images(tmp_path):
    """4,096 of 65,535 is 16 of 255; a largest value of 4,095 may be full scale or not."""
    bright, dark = tmp_path / "bright.png", tmp_path / "dark.png"
    for path, values in ((bright, (4096, 65535)), (dark, (0, 4095))):
        path.write_bytes(deep_png(np.tile(np.array(values)[:, None, None], (4, 8, 3))))
    found = roarbench.Preprocessing(8, 8, "bicubic", mean=[0.0] * 3, std=[255.0] * 3)([bright])
    np.testing.assert_allclose(found[0, :, :2, 0] * 255, [[16, 255]] * 3, atol=1e-3)
    with pytest.raises(roarbench.CallerError, match="dark.png uses 12 of 16 bits per channel; save it with 8 bits"):
        make_preprocessing(8, 8)([dark])
    with pytest.raises(roarbench.CallerError, match="an image of mode I;16 has more than 8 bits; pass its file"):
        make_preprocessing(8, 8)([Image.fromarray(np.zeros((8, 8), np.uint16))])


def test_preprocessing_range_resolves_ambiguous_moments(file):
    """Mean 0 and deviation 1 of images in [0, 1] are 0 and 255 of bytes."""
    moments = {"mean": [0.0] * 3, "std": [1.0] * 3}
    one, bytes_ = (roarbench.Preprocessing(np.int64(9), 8, "box", **moments, range=top) for top in (1, 255))
    np.testing.assert_allclose(255 * one([file]), bytes_([file]), rtol=1e-6)
    assert replace(one, interpolation="bicubic").std == (255.0,) * 3, "`replace` keeps the moments"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda path: make_preprocessing(9, 8, "cubic"), "interpolation is 'cubic', expected"),
        (lambda path: make_preprocessing(9, 8, std=0.0), r"has mean \[0.5\] and std \[0.0\]; expected 1 "),
        (lambda path: roarbench.Preprocessing.of("timm:net"), "timm:net needs timm, which is not installed"),
        (lambda path: roarbench.Preprocessing.of("torchvision:net/X"), "no network of torchvision 'net'"),
        (lambda path: make_preprocessing(9, 8)([path]), "notes.txt is unreadable; leave it out"),
        (lambda path: make_preprocessing(9, 8)(["/nowhere"]), "cannot read /nowhere: No such"),
        (lambda path: make_preprocessing(9, 8)(str(path)), "photographs are a str; expected a list"),
        (lambda path: make_preprocessing(9, 8)([]), "photographs are an empty list; expected a list of paths or"),
        (lambda path: make_preprocessing(9, 8)([PIXELS]), "a photograph is an ndarray; expected a path or a Pillow"),
        (lambda path: make_preprocessing(9, 0), "crop is 0, expected a whole number of pixels, 1 or more"),
    ],
)
def test_preprocessing_rejects_invalid_arguments_or_files(tmp_path, call, words):
    (tmp_path / "notes.txt").write_text("no image")
    with pytest.raises(roarbench.CallerError, match=words):
        call(tmp_path / "notes.txt")


def write_odd_files(folder):
    """Write files that paths and Pillow images must treat alike; return the words of the refusals by file name."""
    values = np.random.default_rng(1).integers(0, 4096, (9, 12, 3))
    narrow = np.random.default_rng(1).integers(0, 2000, (64, 64, 1)) + 32768
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    Image.fromarray(PIXELS).save(folder / "turned.jpg", exif=exif, quality=95)
    Image.fromarray(PIXELS).save(folder / "turned.tif", exif=exif)
    Image.fromarray(PIXELS).save(folder / "turned.webp", exif=exif, lossless=True)
    Image.fromarray(PIXELS).convert("CMYK").save(folder / "inks.jpg")
    Image.fromarray(PIXELS).quantize(8).save(folder / "palette.gif")
    for name, content in {
        "full.png": encode_png(values * 16, 16, 2),
        "twelve.png": encode_png(values, 16, 2),
        "narrow.png": encode_png(narrow, 16, 0),
        "grey.png": encode_png(narrow * 2 - 65536 + 16 * narrow % 65536, 16, 0),
        "float.tif": encode_tiff(values[..., :1] / 4096, 32, kind="f"),
        "inverse.tif": encode_tiff(values[..., :1] * 16, 16, photometric=0),
        "bands.tif": encode_tiff(np.repeat(values // 16, 2, 2)[..., :5], extra=[0, 0]),
        "signed.tif": encode_tiff(values[..., :1] // 16 - 128, 8, kind="i"),
    }.items():
        (folder / name).write_bytes(content)
    return {
        "twelve.png": "uses 12 of 16 bits",
        "narrow.png": "uses a small part of 16 bits",
        "float.tif": "of floats or negative numbers",
        "bands.tif": "unsupported: TIFF with 5 bands",
        "signed.tif": "of floats or negative numbers",
    }


def open_loaded(path):
    image = Image.open(path)
    image.load()
    return image


def open_from_memory(path):
    return Image.open(BytesIO(path.read_bytes()))


@pytest.mark.parametrize("open_image", [Image.open, open_loaded, open_from_memory])
def test_path_and_image_of_one_file_are_treated_alike(tmp_path, open_image):
    """The pixels are equal to the last bit, and refusals name the same cause."""
    refusals = write_odd_files(tmp_path)
    prepare = roarbench.Preprocessing(9, 8, "bicubic", mean=[0.0] * 3, std=[1.0] * 3, range=255)
    for path in sorted(tmp_path.iterdir()):
        with open_image(path) as image:
            if path.name not in refusals:
                np.testing.assert_array_equal(*prepare([path, image]), path.name)
                continue
            for photograph in (path, image):
                with pytest.raises(roarbench.CallerError, match=refusals[path.name]):
                    prepare([photograph])


def test_images_without_a_file_are_taken_as_they_are(tmp_path):
    """Turned, converted, cropped or reduced by the caller: nothing is turned a second time."""
    write_odd_files(tmp_path)
    prepare = roarbench.Preprocessing(9, 8, "bicubic", mean=[0.0] * 3, std=[1.0] * 3, range=255)
    path = tmp_path / "turned.tif"
    upright = prepare([path])
    for turned in (ImageOps.exif_transpose(Image.open(path)), ImageOps.exif_transpose(Image.open(path)).convert("RGB")):
        np.testing.assert_array_equal(prepare([turned]), upright)
    image = Image.open(tmp_path / "turned.jpg")
    ImageOps.exif_transpose(image, in_place=True)
    np.testing.assert_array_equal(prepare([image]), prepare([tmp_path / "turned.jpg"]))
    flat = Image.open(tmp_path / "turned.webp").convert("RGB")
    np.testing.assert_array_equal(prepare([flat])[0], PIXELS[:8, 2:10].transpose(2, 0, 1))
    changed = Image.open(tmp_path / "turned.webp").convert("RGB")
    changed.paste((1, 2, 3), (0, 0, 12, 9))
    assert np.unique(prepare([changed])).tolist() == [1, 2, 3]
    drawn = open_loaded(tmp_path / "turned.webp")
    drawn.paste((1, 2, 3), (0, 0, 12, 9))  # its file has other pixels
    assert np.unique(prepare([drawn])).tolist() == [1, 2, 3]
    with pytest.raises(roarbench.CallerError, match="an image of mode F has more than 8 bits; pass its file instead"):
        prepare([Image.fromarray(np.eye(9, dtype=np.float32))])
