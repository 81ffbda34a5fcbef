"""The tiny data set of `tiny_set.py`, its record and its files."""

import pytest

from tests.helpers.tiny_set import TINY, TINY_LABELS, png, tiny_pixels, write_split


@pytest.fixture
def tiny():
    return TINY


@pytest.fixture
def tiny_folder(tmp_path):
    folder = tmp_path / "tiny"
    for split, pixels in tiny_pixels().items():
        write_split(folder, split, [png(image) for image in pixels], TINY_LABELS[split])
    return folder
