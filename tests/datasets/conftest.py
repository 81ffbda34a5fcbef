"""The tiny data set of `tiny_set.py`, its record and its files."""

import shutil

import pytest

from tests.helpers.tiny_set import TINY_LABELS, tiny_images, write_split


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    for split, labels in TINY_LABELS.items():
        write_split(folder, split, tiny_images(split), labels)
    return folder


@pytest.fixture
def tiny_folder(written, tmp_path):
    return shutil.copytree(written, tmp_path / "tiny")
