"""Photographs as a network takes them, from Python: the pixels of a suite's file, normalised."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import roarbench
from tests.helpers.deep_files import deep_png

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 12, 3), np.uint8)


@pytest.fixture
def file(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "one.png")
    return tmp_path / "one.png"


@pytest.mark.parametrize("scale", (1, 255))
def test_files_and_images_are_cropped_and_normalised(file, scale):
    """Nothing is resized, since the short side has its 9 pixels already; of 12 - 8 columns two go on either side."""
    moments = {"mean": [0.4 * scale, 0.5 * scale, 0.6 * scale], "std": [0.5 * scale] * 3}
    prepare = roarbench.Preprocessing(9, 8, "bicubic", **moments)
    found = prepare([file, str(file), Image.open(file)])
    expected = (PIXELS[0:8, 2:10].transpose(2, 0, 1) / 255 - np.reshape([0.4, 0.5, 0.6], (3, 1, 1))) / 0.5
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [expected] * 3, atol=1e-6)  # float32
    grey = roarbench.Preprocessing(9, 8, "bicubic", [0.5], [0.5])([file])
    assert grey.shape == (1, 1, 8, 8)


def test_what_torchvision_does_for_its_weights():
    """Of its documentation: resized to 232 pixels by bilinear interpolation, a central crop of 224."""
    found = roarbench.Preprocessing.of("torchvision:resnet50/IMAGENET1K_V2")
    assert (found.resize, found.crop, found.interpolation) == (232, 224, "bilinear")
    assert np.array(found.std) / 255 == pytest.approx([0.229, 0.224, 0.225])


def made(resize, crop, interpolation="box", std=0.5):
    return roarbench.Preprocessing(resize, crop, interpolation, [0.5], [std])


def test_deep_images_are_scaled_or_refused(tmp_path):
    """4,096 of 65,535 is 16 of 255; 4,095 needs 12 bits, which nobody says are all."""
    bright, dark = tmp_path / "bright.png", tmp_path / "dark.png"
    for path, values in ((bright, (4096, 65535)), (dark, (0, 4095))):
        path.write_bytes(deep_png(np.tile(np.array(values)[:, None, None], (4, 8, 3))))
    found = roarbench.Preprocessing(8, 8, "bicubic", [0.0] * 3, [255.0] * 3)([bright])
    np.testing.assert_allclose(found[0, :, :2, 0] * 255, [[16, 255]] * 3, atol=1e-3)
    with pytest.raises(roarbench.CallerError, match="dark.png uses 12 of 16 bits per channel; save it with 8 bits"):
        made(8, 8)([dark])
    with pytest.raises(roarbench.CallerError, match="an image of mode I;16 has more than 8 bits; pass its file"):
        made(8, 8)([Image.fromarray(np.zeros((8, 8), np.uint16))])


def test_numbers_that_fit_both_ranges_say_which_they_are_of(file):
    """Mean 0 and deviation 1 of images in [0, 1] are 0 and 255 of bytes."""
    one, bytes_ = (roarbench.Preprocessing(9, 8, "box", [0.0] * 3, [1.0] * 3, range=top) for top in (1, 255))
    whole = PIXELS[0:8, 2:10].transpose(2, 0, 1)
    np.testing.assert_allclose(one([file])[0], whole / 255, rtol=1e-6)
    np.testing.assert_array_equal(bytes_([file])[0], whole)
    assert replace(one, interpolation="bicubic").std == (255.0,) * 3, "a changed copy keeps its numbers"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda path: roarbench.Preprocessing(8, 9, "bicubic", [0.5], [0.5]),
            "resize is 8, but the square to cut out has 9 pixels",
        ),
        (lambda path: made(9, 8, "cubic"), "interpolation is 'cubic', expected"),
        (lambda path: made(9, 8, std=0.0), r"has mean \[0.5\] and std \[0.0\]; expected 1 "),
        (lambda path: roarbench.Preprocessing.of("timm:net"), "timm:net needs timm, which is not installed"),
        (lambda path: roarbench.Preprocessing.of("torchvision:net/X"), "no network of torchvision 'net'"),
        (lambda path: roarbench.Preprocessing(9, 8, "box", [0.5], [0.5], range=0), "has range 0; expected the largest"),
        (lambda path: made(9, 8)([path]), "notes.txt is unreadable; leave it out"),
        (lambda path: made(9, 8)(["/nowhere"]), "cannot read /nowhere: No such"),
    ],
)
def test_what_cannot_be_prepared_is_refused_in_words(tmp_path, call, words):
    (tmp_path / "notes.txt").write_text("no image")
    with pytest.raises(roarbench.CallerError, match=words):
        call(tmp_path / "notes.txt")
