"""Warnings of names of images that give splits or belong together, and of archives beside images."""

import numpy as np
import pytest

from roarbench.datasets.file_names import describe_names
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.unsupported_files import describe_unread_archives
from tests.helpers.image_files import png


def name_images(pattern, count=20):
    return [
        pattern.format(kind=kind, n=n, pair=n // 2, split=("train", "test")[n % 4 == 3])
        for kind in ("cat", "dog")
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{kind}/{split}_{n}.png", "names of files give splits, such as 'cat/train_0.png', 'cat/test_11.png'"),
        ("{kind}/{kind}-{split}-{n}.png", "names of files give splits"),
        ("{kind}/test_{n}.png", ""),
        ("{kind}/{n}_patient{pair}.png", "names with 'patient0' and alike have 20 values in 40 images"),
        ("{kind}/patient{pair}_{n}.png", "names with 'patient0' and alike have 20 values in 40 images"),
        ("{kind}/Subject_{pair}/{n}.png", "so both splits have images of one Subject"),
        ("video{pair:04}/{kind}/{n}.png", "names with 'video0000' and alike have 10 values in 40 images"),
        ("{kind}/slide_{n}.png", ""),  # one image of each
        ("{kind}/IMG_{n:04}.png", ""),
        ("{kind}/n01440764_{n}.png", ""),
        ("{kind}/{n}_{n}.png", ""),
    ],
)
def test_names_that_give_splits_or_groups_are_named(pattern, words):
    said = "\n".join(describe_names(name_images(pattern)))
    assert words in said and bool(words) == bool(said)


@pytest.mark.parametrize("ending", ["_flipped", " (1)", "-rot-90", "_aug_2", ".copy", " - Copy"])
def test_images_named_like_others_are_named(ending):
    images = name_images("{kind}/IMG_{n}.png")
    changed = [path.replace(".png", f"{ending}.jpg") for path in images]
    (said,) = describe_names([*images, *changed])
    assert said.startswith("warning: 40 of 80 images are named like others, such as 'cat/IMG_0")
    assert not [*describe_names([*images, *(path.replace("cat/", "owl/") for path in changed[:20])])]


def test_archives_beside_class_folders_are_named(tmp_path):
    (tmp_path / "cat").mkdir()
    for name in ("cat.zip", "dog.tar.gz", "owl.ZIP", "notes.txt", f"{tmp_path.name}.zip"):
        (tmp_path / name).touch()
    (said,) = describe_unread_archives(tmp_path)
    assert said.startswith("warning: archives are not read: 'dog.tar.gz', 'owl.ZIP'; unpack")


def test_new_suite_says_what_names_and_archives_suggest(tmp_path):
    rng = np.random.default_rng(0)
    for path in name_images("{kind}/{split}_patient{pair}_{n}.png", 8):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(png(rng.integers(0, 256, (8, 8, 3), np.uint8)))
    (tmp_path / "owl.zip").touch()
    said = []
    infer_dataset(tmp_path, said.append)
    for words in ("archives are not read: 'owl.zip'", "names of files give splits", "names with 'patient"):
        assert sum(words in line for line in said) == 1
