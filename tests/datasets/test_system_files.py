"""Folders and files that systems make are neither classes nor images."""

import shutil
from collections import Counter

import pytest

from roarbench.datasets import image_folders
from roarbench.datasets.image_folders import describe_left_out, is_system_file, is_system_folder
from roarbench.datasets.infer_dataset import infer_dataset
from tests.helpers.image_files import write_pictures

FOLDERS = (
    "@eaDir #recycle $RECYCLE.BIN lost+found __MACOSX .ipynb_checkpoints .thumbnails .Trash-1000 FOUND.000 @Recycle "
    "@Recently-Snapshot .@__thumb"
)


@pytest.mark.parametrize("name", [*FOLDERS.split(), "System Volume Information"])
@pytest.mark.parametrize("place", [".", "red"])
def test_folder_of_system_is_neither_class_nor_image(tmp_path, name, place):
    folder = write_pictures(tmp_path / "set")
    (folder / place / name / "00.png").mkdir(parents=True)
    shutil.copy(folder / "blue" / "00.png", folder / place / name / "00.png" / "SYNOPHOTO_THUMB_M.png")
    shutil.copy(folder / "blue" / "01.png", folder / place / name)
    said = []
    record = infer_dataset(folder, said.append)
    assert (record.classes, record.train_images + record.test_images) == (3, 24)
    assert f"left out, because systems make them or they are hidden: {name}" in said


def test_files_of_systems_are_named_in_one_line(tmp_path):
    folder = write_pictures(tmp_path / "set")
    for name in ("Thumbs.db", "desktop.ini", ".DS_Store", "._00.png", "._01.png", ".hidden.png"):
        (folder / "red" / name).write_bytes(b"x")
    said = []
    record = infer_dataset(folder, said.append)
    assert record.train_images + record.test_images == 24
    (line,) = [line for line in said if "left out" in line]
    assert sorted(line.partition("hidden: ")[2].split(", ")) == [*(".hidden.png", "2 ._*", "Thumbs.db", "desktop.ini")]


@pytest.mark.parametrize("name", ["lost and found", "eaDir", "Recycle", "MACOSX", "found", "Trash"])
def test_class_folder_of_similar_name_stays(tmp_path, name):
    folder = write_pictures(tmp_path / "set")
    (folder / "red").rename(folder / name)
    assert name in image_folders.list_class_names(folder)
    assert infer_dataset(folder, lambda line: None).classes == 3


def test_names_of_systems_are_matched_whole():
    assert not any(map(is_system_folder, ("@eaDirs", "cat", "lost", "found.1")))
    assert not any(map(is_system_file, ("thumbs.png", "desktop.png", "_.png")))
    assert describe_left_out(Counter()) == ""
