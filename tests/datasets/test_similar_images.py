"""Test images that look like a training image are found in decoded pixels; other images are not."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from roarbench.common.enums import Split
from roarbench.datasets.catalogue import make_user_dataset_record
from roarbench.datasets.open_decoded import ImageData, SplitImages
from roarbench.datasets.repeated_images import describe_similar_images


def draw_photographs(count, seed, size=40, channels=3):
    """Draw smooth random images, uint8 (n, c, size, size)."""
    coarse = np.random.default_rng(seed).integers(0, 256, (count, channels, 6, 6), np.uint8)
    layers = [Image.fromarray(layer).resize((size, size)) for layer in coarse.reshape(-1, 6, 6)]
    return np.stack([np.asarray(layer) for layer in layers]).reshape(count, channels, size, size)


def make_data(train, test):
    record = make_user_dataset_record("made", channels=train.shape[1], size=train.shape[-1])
    splits = (SplitImages(pixels, np.arange(len(pixels)) % 2, None) for pixels in (train, test))
    return ImageData(record, Path(), *splits, mean=(), std=(), fingerprint="", limit=None, repairs={})


def save_as_jpeg(pixels):
    file = BytesIO()
    Image.fromarray(pixels.transpose(1, 2, 0)).save(file, "JPEG", quality=75)
    return np.asarray(Image.open(file)).transpose(2, 0, 1)


def scale(pixels):
    small = Image.fromarray(pixels.transpose(1, 2, 0)).resize((24, 24))
    return np.asarray(small.resize((40, 40))).transpose(2, 0, 1)


COPIES = {
    "equal": lambda pixels: pixels,
    "JPEG": save_as_jpeg,
    "scaled": scale,
    "mirrored": lambda pixels: pixels[..., ::-1],
    "upside down": lambda pixels: pixels[:, ::-1],
    "turned": lambda pixels: np.rot90(pixels, 1, (1, 2)),
    "turned and mirrored": lambda pixels: np.rot90(pixels, 3, (1, 2))[..., ::-1],
    "darker": lambda pixels: (pixels * 0.7).astype(np.uint8),
    "noisy": lambda pixels: (pixels + np.random.default_rng(0).normal(0, 8, pixels.shape)).clip(0, 255).astype("u1"),
}


@pytest.mark.parametrize("kind", COPIES)
def test_each_copy_is_counted_and_named_with_its_original(kind):
    train, test = draw_photographs(30, 0), draw_photographs(10, 1)
    for place, original in ((4, 7), (9, 2)):
        test[place] = COPIES[kind](train[original])
    said = describe_similar_images(make_data(train, test), lambda split, place: f"{split} {place}")
    assert said.startswith("2 of 10 compared test images look like a training image, such as test 4 and train 7;")


@pytest.mark.parametrize(("size", "channels"), [(8, 1), (28, 1), (45, 3)])
def test_different_images_are_not_alike(size, channels):
    train, test = (draw_photographs(300, seed, size, channels) for seed in (0, 1))
    assert describe_similar_images(make_data(train, test)) == ""
    assert "1 of 300 compared" in describe_similar_images(make_data(train, np.concatenate([test[:299], train[-1:]])))


def test_images_of_one_colour_and_of_one_shape_in_other_colours_are_not_alike():
    noise = np.random.default_rng(0).integers(0, 9, (40, 3, 40, 40), np.uint8)
    noise[:, 0] += 180  # textures of one colour
    assert describe_similar_images(make_data(noise[:30], noise[30:])) == ""
    flat = np.broadcast_to(np.linspace(100, 105, 40).astype(np.uint8), (4, 3, 40, 40))  # all equal, nearly one colour
    assert describe_similar_images(make_data(flat, flat)) == ""
    ball = np.zeros((2, 3, 40, 40), np.uint8)
    ball[0, 0, 10:20, 5:15] = ball[1, 2, 10:20, 5:15] = 200  # red and blue
    assert describe_similar_images(make_data(ball[:1], ball[1:])) == ""


def test_sketch_is_mean_of_cells():
    from roarbench.datasets.repeated_images import _sketch

    pixels = draw_photographs(3, 0, 24)
    cells = pixels.reshape(3, 3, 8, 3, 8, 3).mean((3, 5))
    np.testing.assert_allclose(_sketch(pixels, np.arange(3)), cells, rtol=1e-6)


def test_many_images_are_compared_evenly(monkeypatch):
    from roarbench.datasets import repeated_images

    monkeypatch.setattr(repeated_images, "_MAX_SKETCHED", {Split.TRAIN: 40, Split.TEST: 10})
    train, test = draw_photographs(40, 0), draw_photographs(20, 1)
    test[18] = train[5]
    said = describe_similar_images(make_data(train, test), lambda split, place: f"{split} {place}")
    assert said.startswith("1 of 10 compared test images look like a training image, such as test 18 and train 5;")
