"""The tiny data set of `tiny_set.py`, its record and its files."""

import pytest

from tests.helpers.image_files import TINY_LABELS, tiny_images, write_split


@pytest.fixture
def tiny_folder(tmp_path):
    for split, labels in TINY_LABELS.items():
        write_split(tmp_path / "tiny", split, tiny_images(split), labels)
    return tmp_path / "tiny"
