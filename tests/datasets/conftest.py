"""The tiny data set of `tiny_set.py`, its record and its files."""

import shutil

import pytest

from tests.helpers.tiny_set import TINY_LABELS, png, tiny_pixels, write_split


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    for split, pixels in tiny_pixels().items():
        write_split(folder, split, [png(image) for image in pixels], TINY_LABELS[split])
    return folder


@pytest.fixture
def tiny_folder(written, tmp_path):
    return shutil.copytree(written, tmp_path / "tiny")
