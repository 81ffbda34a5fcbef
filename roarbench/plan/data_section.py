"""The part of a suite's TOML file that says what its images are (docs/own-data.md). Nothing here imports torch."""

import re
from dataclasses import replace
from pathlib import Path

from roarbench.datasets import FOLDERS, OWN_IMAGES, PARQUET, TABLE, DatasetRecord, make_own_record
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.sources import count_images
from roarbench.plan.custom_suite import rename_dataset
from roarbench.plan.preprocessing import read_preprocessing
from roarbench.plan.toml_table import TomlTable

_MANY = 10**9
_SPLIT_KEYS = ("train", "test")


def read_data(section: TomlTable, base: Path, name: str) -> DatasetRecord:
    """Return the record of the data that a suite's file names in `[data]`, counted.

    Paths begin at `base`; the data have the suite's name where they have no other. CallerError, with the place in the
    file, where there are no such data.
    """
    kinds = [kind for kind in ("images", "parquet", "table", "hub", "known") if kind in section]
    if len(kinds) != 1:
        seen = f"has {' and '.join(kinds)}" if kinds else "says nothing of where the data are"
        raise section.wrong(
            f'{seen}; write one of images = "FOLDER", parquet = "FOLDER", table = "FILE", hub = "OWNER/NAME", '
            'known = "cifar10"'
        )
    if kinds == ["known"]:
        with section.naming():
            found = find_dataset(section.text("known"))
        section.close()
        return found
    made = make_own_record("", 1, 1) if kinds == ["table"] else _pixels(section)  # columns are counted later
    record = replace(made, name=section.text("name", name), about=section.text("about", OWN_IMAGES))
    read = {"images": _images, "parquet": _parquet, "table": _table, "hub": _hub}[kinds[0]]
    record = read(section, base, record)
    section.close()
    with section.naming():
        return rename_dataset(record.name, count_images(record) if record.own else record)


def _pixels(section: TomlTable) -> DatasetRecord:
    channels = section.whole("channels", 1, 3, 3)
    if channels == 2:
        raise section.wrong("channels is 2, expected 1 for grey or 3 for colour")
    depth = section.whole("depth", 8, 32) if "depth" in section else 0
    return replace(read_preprocessing(section, channels), depth=depth)


def _split(section: TomlTable, record: DatasetRecord, only: str) -> DatasetRecord:
    """Return the record with its splits: two names, or a share of the only one that is drawn."""
    named = [key for key in _SPLIT_KEYS if key in section]
    if "test_share" in section:
        if named:
            raise section.wrong(f"has {named[0]} and test_share; write train and test, or test_share alone")
        share, seed = section.number("test_share", 0.01, 0.9), section.whole("seed", 0, 2**31, 0)
        return replace(record, train_split=only, test_split=only, share=share, seed=seed)
    if "test" not in named:
        says = "says of no split" if not named else "has train and no test"
        raise section.wrong(f'{says}; write train = "…" and test = "…", or test_share = 0.2 to have it drawn')
    test = section.text("test")
    if named == ["test"]:
        return replace(record, train_split=test, test_split=test)
    train = section.text("train")
    if train == test:
        raise section.wrong(f"train and test are both '{train}'; write two, or test_share = 0.2 alone")
    return replace(record, train_split=train, test_split=test)


def _numbered(section: TomlTable, record: DatasetRecord) -> DatasetRecord:
    """Return the record with its classes, where the file says how many outputs the network has."""
    classes = section.whole("classes", 2, _MANY, 0)
    return replace(record, classes=classes, numbered=classes > 0)


def _images(section: TomlTable, base: Path, record: DatasetRecord) -> DatasetRecord:
    folder = _folder(section, "images", base)
    return replace(_numbered(section, _split(section, record, ".")), own=FOLDERS, folder=folder)


def _parquet(section: TomlTable, base: Path, record: DatasetRecord) -> DatasetRecord:
    folder = _folder(section, "parquet", base)
    record = _numbered(section, _split(section, record, "train"))
    return replace(_columns(section, record), own=PARQUET, folder=folder)


def _table(section: TomlTable, base: Path, record: DatasetRecord) -> DatasetRecord:
    file = (base / section.text("table")).resolve()
    if not file.is_file():
        what = "a folder" if file.is_dir() else "missing"
        raise section.wrong(f"table is {what}: {file}; write a parquet or CSV file, relative to this file")
    return replace(
        record,
        own=TABLE,
        folder=str(file),
        label_column=section.text("label_column", "label"),
        columns=section.texts("columns") if "columns" in section else (),
        share=section.number("test_share", 0.01, 0.9),
        seed=section.whole("seed", 0, 2**31, 0),
    )


def _columns(section: TomlTable, record: DatasetRecord) -> DatasetRecord:
    image, label = (section.text(f"{kind}_column", kind) for kind in ("image", "label"))
    return replace(record, image_column=image, label_column=label)


def _hub(section: TomlTable, base: Path, record: DatasetRecord) -> DatasetRecord:
    hub, revision = section.text("hub"), section.text("revision")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", hub):
        raise section.wrong(f"hub is '{hub}', expected OWNER/NAME as in the address of its page")
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        seen = f"revision is '{revision}', expected the 40 digits of a commit, so that the data stay the same"
        raise section.wrong(f"{seen}; its page on the hub lists them under Files, History")
    return replace(
        _columns(section, _split(section, record, "train")),
        hub=hub,
        revision=revision,
        config=section.text("config", ""),
        classes=section.whole("classes", 2, _MANY),
        train_images=section.whole("train_images", 2, _MANY),
        test_images=section.whole("test_images", 1, _MANY),
    )


def _folder(section: TomlTable, key: str, base: Path) -> str:
    """Return the path of a folder of the data, which a file names from where it lies itself."""
    folder = (base / section.text(key)).resolve()
    if not folder.is_dir():
        what = "a file" if folder.exists() else "missing"
        raise section.wrong(f"{key} is {what}: {folder}; write a folder, relative to this file")
    return str(folder)
