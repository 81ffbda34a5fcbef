"""Superpixels: parts of like colour, the same ones every time, found once and kept."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from roarbench.datasets import superpixel_files as module
from roarbench.datasets.superpixel_files import superpixels, superpixels_of
from roarbench.terms import Split

skimage = pytest.importorskip("skimage")


def halves(channels):
    """Dark on the left, light on the right, with a little noise; uint8 (channels, 32, 32)."""
    image = np.random.default_rng(0).integers(0, 9, (channels, 32, 32)).astype(np.uint8)
    image[:, :, 18:] += 200
    return image


@pytest.mark.parametrize("channels", [1, 3])
def test_no_superpixel_is_both_dark_and_light(channels):
    labels = superpixels_of(halves(channels))
    assert (labels.shape, labels.dtype) == ((32, 32), np.uint16)
    assert not set(np.unique(labels[:, :18])) & set(np.unique(labels[:, 18:]))
    assert 32 <= len(np.unique(labels)) <= 96
    assert labels.max() == len(np.unique(labels)) - 1


def test_they_are_found_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 2)
    pixels = np.stack([halves(3) + np.uint8(i) for i in range(5)])
    expected = np.stack([superpixels_of(image) for image in pixels])
    assert_array_equal(superpixels(tmp_path / "one", Split.TEST, pixels, 1, 4), expected[1:4])
    monkeypatch.setattr(module, "superpixels_of", None)  # would fail if it were called
    assert_array_equal(superpixels(tmp_path / "one", Split.TEST, pixels, 0, 4), expected[:4])
    note = json.loads((tmp_path / "one" / "superpixels-64" / "test-000002.json").read_text())
    assert note.items() >= {"scikit-image": skimage.__version__, "segments": 64, "compactness": 10.0}.items()
    with pytest.raises(TypeError):
        superpixels(tmp_path / "one", Split.TEST, pixels, 4, 5)
