"""Warnings of names of images that give splits or belong together, and of archives."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roarbench.common.enums import Split
from roarbench.datasets.catalogue import FOLDERS, make_user_dataset_record
from roarbench.datasets.file_names import describe_named_groups, describe_names, describe_series, describe_versions
from roarbench.datasets.image_folders import FileGroup, describe_unread_archives
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.undecoded_splits import RawSplit, UserImages
from tests.helpers.image_files import png, write_pictures


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


@pytest.mark.parametrize(
    ("train", "test", "words"),
    [
        (
            range(20),
            range(20),
            "names with 'patient0' and alike: 10 of the 10 values of test images, such as 'patient0', are",
        ),
        (range(20), range(20, 40), ""),
    ],
)
def test_patients_in_both_given_splits_are_named(train, test, words):
    """Their numbers stand behind that of the image; numbers that occur once each are those of images."""
    paths = [
        [f"{split}/cat/{n}_patient{n // 2}.png" for n in numbers]
        for split, numbers in (("train", train), ("test", test))
    ]
    assert words in "".join(describe_named_groups(*paths)) and bool(words) == bool([*describe_named_groups(*paths)])
    assert not [*describe_named_groups(*([f"{split}/cat/case_{n}.png" for n in train] for split in ("train", "test")))]


def make_images(train, test, share):
    """User's images at these paths, whose classes are folders; with a share, both splits are drawn from the paths."""
    record = replace(make_user_dataset_record("pets", channels=3, size=8), own=FOLDERS, share=share)
    splits = {}
    for split, paths in zip(Split, (train, test), strict=True):
        labels = np.array(["cat/" in path for path in paths]).astype(int)
        rows = np.flatnonzero((np.arange(len(paths)) % 3 == 2) == (split is Split.TEST) if share else labels >= 0)
        splits[split] = RawSplit(labels[rows], rows, (FileGroup(Path(), tuple(paths)),))
    return UserImages(record, ("dog", "cat"), splits, ())


@pytest.mark.parametrize("ending", ["_flipped", " (1)", "-rot-90", "_aug_2", ".copy", " - Copy", "_x512_y0"])
def test_images_named_like_others_are_named(ending):
    images = name_images("{kind}/IMG_{n}.png")
    changed = [path.replace(".png", f"{ending}.jpg") for path in images]
    paths = [*images, *changed]
    (said,) = describe_versions(make_images(paths, paths, 0.3))
    assert said.startswith("warning: 40 of 80 images are named like others, such as 'dog/IMG_0")
    inside = [*images, *(path.replace("/", "/crops/") for path in changed)]
    assert [*describe_versions(make_images(inside, inside, 0.3))]
    of_others = [path for path in images if "cat/" in path] + [path for path in changed if "dog/" in path]
    assert not [*describe_versions(make_images(of_others, of_others, 0.3))]


@pytest.mark.parametrize("change", [lambda path: path.replace("/", "/aug_"), lambda path: path.replace("/", "/flip-")])
def test_images_whose_names_end_like_others_are_named(change):
    paths = [*(images := name_images("{kind}/IMG_{n}.png")), *map(change, images)]
    (said,) = describe_versions(make_images(paths, paths, 0.3))
    assert said.startswith("warning: 40 of 80 images are named like others")


def test_images_named_like_others_of_the_other_given_split_are_named():
    """Pictures, and crops of these; numbers may begin anew in each split."""
    wholes, crops = (name_images(f"{{kind}}/a{{n}}{end}.png") for end in ("", "_x0_y512"))
    both = [[f"{split}/{path}" for path in (*wholes, *crops)] for split in ("train", "test")]
    assert not [*describe_versions(make_images(*both, 0))]
    for train, test in ((wholes, crops), (crops, wholes)):
        (said,) = describe_versions(make_images(*([f"train/{p}" for p in train], [f"test/{p}" for p in test]), 0))
        assert said.startswith("warning: 40 of 40 test images are named like training images, such as 'test/dog/a0")


@pytest.mark.parametrize(
    ("pattern", "beginning"),
    [
        ("{kind}/v_{kind}_g{pair:02}_c01_{n}.png", "v_cat_g0"),
        ("{kind}/TCGA-AA-{pair:04}_{n}_0.png", "TCGA-AA-0"),
        ("{kind}/{pair:08}_{n}.png", "0000000"),
        ("{kind}/a{pair}_jpg.rf.{n:032}.jpg", "a"),  # versions of one photograph
        ("{kind}/c{pair}d2084x_{n:04}.png", "c"),
        ("{kind}/cfd{pair}084_{n:04}.png", "cfd"),  # one ends like a year
        ("{kind}/anna_{n:04}.png", ""),
        ("{kind}/{pair:03}{split[1]}.png", "00"),
        ("{kind}/{n:03}x.png", ""),
        ("{kind}/{n}.png", ""),
        ("{kind}/n01440764_{n}.png", ""),
        ("{kind}/Footed_{n:04}_{n}{n}.png", ""),
        ("{kind}/2019-{pair:02}-{n}.png", ""),  # months
        ("{pair}/{kind}/{n}.png", ""),
    ],
)
def test_names_that_begin_alike_are_named(pattern, beginning):
    paths = name_images(pattern)
    said = "".join(describe_series(make_images(paths, paths, 0.3)))
    assert ("the names of 13 of 13 test images begin as those of training images" in said) == bool(beginning)
    assert f"such as '{beginning}" in said or not beginning


@pytest.mark.parametrize(("name", "warned"), [("p{pair}_{n}", True), ("{n}", False), ("{n}_{n}", False)])
def test_names_in_given_splits_that_begin_alike_are_named(name, warned):
    train = name_images(f"train/{{kind}}/{name}.png")
    test = [path.replace("train", "test") for path in train]
    said = "".join(describe_series(make_images(train, test, 0)))
    assert ("the names of 40 of 40 test images begin as those of training images" in said) == warned
    assert not [*describe_series(make_images(train, [path.replace("/p", "/q") for path in test], 0))]


def test_pairs_that_given_splits_part_are_named():
    """The left eye of a patient in one split, the right eye in the other; people have images of the same names."""
    left, right = (name_images(f"{{split}}/{{kind}}/{{n}}_{side}.png") for side in ("left", "right"))
    train, test = (
        [path.replace("test/", "train/") for path in left],
        [path.replace("train/", "test/") for path in right],
    )
    (said,) = describe_series(make_images(train, test, 0))
    assert "the names of 40 of 40 test images begin as those of training images" in said
    train, test = (name_images(f"{split}/{{kind}}/person/{{n}}.png") for split in ("train", "test"))
    assert not [*describe_series(make_images([*train, *name_images("train/{kind}/other/{n}.png")], test, 0))]


def test_archives_beside_class_folders_are_named(tmp_path):
    (tmp_path / "cat").mkdir()
    for name in ("cat.zip", "dog.tar.gz", "owl.ZIP", "notes.txt", f"{tmp_path.name}.zip"):
        (tmp_path / name).touch()
    (said,) = describe_unread_archives(tmp_path)
    assert said.startswith("warning: archives are not read: 'dog.tar.gz', 'owl.ZIP'; unpack")


def test_archive_beside_the_only_folder_is_named(tmp_path):
    """Test images were drawn from `train` without a word of `test.zip`."""
    write_pictures(tmp_path / "train")
    (tmp_path / "test.zip").touch()
    said = []
    infer_dataset(tmp_path, said.append)
    assert [line for line in said if "archives are not read: 'test.zip'" in line]


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
