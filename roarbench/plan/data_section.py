"""Read the section of a suite's TOML file that describes its images and their preprocessing (docs/own-data.md).

torchvision and timm are imported only if the TOML file names them.
"""

import math
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from roarbench.common.errors import CallerError
from roarbench.datasets.catalogue import (
    FOLDERS,
    OWN_IMAGES,
    PARQUET,
    TABLE,
    DatasetRecord,
    find_dataset,
    make_user_dataset_record,
)
from roarbench.datasets.preprocessing import DEFAULT_INTERPOLATION, check_resizing, parse_mean_and_std
from roarbench.datasets.undecoded_splits import add_class_and_image_counts
from roarbench.plan.suite_record import append_record_hash
from roarbench.plan.toml_table import TomlTable

_MAX_COUNT = 10**9  # maximum number of classes or images
# maximum side of the decoded square, and maximum length of the shorter side of a resized photograph, in pixels
_MAX_SIZE, _MAX_RESIZE = 512, 4096


def read_data_section(section: TomlTable, base: Path, name: str) -> DatasetRecord:
    """Read the data set of section `[data]` and count its images.

    `name` is the data set's name if the section has none. Paths in the section are relative to `base`.
    """
    kinds = [key for key in ("images", "parquet", "table", "hub", "known") if key in section]
    with section.check_in_block():
        if len(kinds) != 1:
            seen = f"has {' and '.join(kinds)}" if kinds else "does not say where the data are"
            ways = 'images = "FOLDER", parquet = "FOLDER", table = "FILE", hub = "OWNER/NAME", known = "cifar10"'
            raise CallerError(f"{seen}; write one of {ways}")
        if kinds == ["known"]:
            return find_dataset(section.read_text("known"))
        readers = {"images": _read_images, "parquet": _read_parquet, "table": _read_table, "hub": _read_hub}
        record = readers[kinds[0]](section, base)
        record = replace(record, name=section.read_text("name", name), about=section.read_text("about", OWN_IMAGES))
        return append_record_hash(record.name, add_class_and_image_counts(record) if record.own else record)


def _read_depth_and_preprocessing(section: TomlTable) -> DatasetRecord:
    channels = section.read_integer("channels", 1, 3, 3)
    if channels == 2:
        raise CallerError("channels is 2, expected 1 (grey) or 3 (colour)")
    depth = section.read_integer("depth", 8, 32) if "depth" in section else 0
    return replace(read_preprocessing(section, channels), depth=depth)


def _read_splits_or_share(section: TomlTable, record: DatasetRecord, single_split_name: str) -> DatasetRecord:
    """Read the names of the splits; with `test_share`, there is a single split, from which test images are drawn."""
    keys = [key for key in ("train", "test", "test_share") if key in section]
    if keys == ["test_share"]:
        share, seed = section.read_number("test_share", 0.01, 0.9), section.read_integer("seed", 0, 2**31, 0)
        return replace(record, train_split=single_split_name, test_split=single_split_name, share=share, seed=seed)
    train, test = (section.read_text(key, "") for key in ("train", "test"))
    if keys == ["test"]:
        return replace(record, train_split=test, test_split=test)
    if keys != ["train", "test"] or train == test:
        remedy = 'write train = "…" and test = "…", two different splits, or test_share = 0.2 to draw the test images'
        raise CallerError(f"has {' and '.join(keys) or 'no split'}; {remedy}")
    return replace(record, train_split=train, test_split=test)


def _read_class_count_and_numbering(section: TomlTable, record: DatasetRecord) -> DatasetRecord:
    """Read the number of classes; if the section has this number, labels are indices of the network's outputs."""
    classes = section.read_integer("classes", 2, _MAX_COUNT, 0)
    return replace(record, classes=classes, numbered=classes > 0)


def _read_images(section: TomlTable, base: Path) -> DatasetRecord:
    record = _read_splits_or_share(section, _read_depth_and_preprocessing(section), ".")
    return replace(
        _read_class_count_and_numbering(section, record), own=FOLDERS, folder=_read_path(section, "images", base)
    )


def _read_parquet(section: TomlTable, base: Path) -> DatasetRecord:
    record = _read_splits_or_share(section, _read_depth_and_preprocessing(section), "train")
    record = _read_class_count_and_numbering(section, _read_column_names(section, record))
    return replace(record, own=PARQUET, folder=_read_path(section, "parquet", base))


def _read_table(section: TomlTable, base: Path) -> DatasetRecord:
    return replace(
        make_user_dataset_record("", 1, 1),  # the columns are counted later
        own=TABLE,
        folder=_read_path(section, "table", base),
        label_column=section.read_text("label_column", "label"),
        columns=section.read_texts("columns") if "columns" in section else (),
        share=section.read_number("test_share", 0.01, 0.9),
        seed=section.read_integer("seed", 0, 2**31, 0),
    )


def _read_column_names(section: TomlTable, record: DatasetRecord) -> DatasetRecord:
    image, label = (section.read_text(f"{kind}_column", kind) for kind in ("image", "label"))
    return replace(record, image_column=image, label_column=label)


def _read_hub(section: TomlTable, base: Path) -> DatasetRecord:
    hub, revision = section.read_text("hub"), section.read_text("revision")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", hub):
        raise CallerError(f"hub is '{hub}', expected OWNER/NAME as in the address of its page")
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise CallerError(
            f"revision is '{revision}', expected the 40 digits of a commit, so that the data stay the same"
        )
    record = _read_splits_or_share(section, _read_depth_and_preprocessing(section), "train")
    return replace(
        _read_column_names(section, record),
        hub=hub,
        revision=revision,
        config=section.read_text("config", ""),
        classes=section.read_integer("classes", 2, _MAX_COUNT),
        train_images=section.read_integer("train_images", 2, _MAX_COUNT),
        test_images=section.read_integer("test_images", 1, _MAX_COUNT),
    )


def _read_path(section: TomlTable, key: str, base: Path) -> str:
    path, kind = (base / section.read_text(key)).resolve(), "file" if key == "table" else "folder"
    if not (path.is_file() if key == "table" else path.is_dir()):
        raise CallerError(
            f"{key} is {path}, which is not a {kind}; write the path of a {kind}, relative to the suite's file"
        )
    return str(path)


def read_preprocessing(section: TomlTable, channels: int) -> DatasetRecord:
    """Return a data set's record with the preprocessing of section `[data]`, for images with this many channels."""
    if "preprocessing" in section:
        published = read_published_preprocessing(name := section.read_text("preprocessing"))
        check_resizing(published.resize, published.size, published.interpolation)
        if published.channels != channels or published.size > _MAX_SIZE:
            seen = f"{name} is for images of {published.channels} channels and {published.size} pixels"
            raise CallerError(f"{seen}, expected {channels} channels and at most {_MAX_SIZE} pixels per side")
        return published
    size = section.read_integer("size", 8, _MAX_SIZE)
    record = _read_normalisation(section, make_user_dataset_record("", channels, size))
    if "resize" not in section:
        return replace(record, crop=section.read_number("crop", 0.1, 1.0, 1.0))
    resize = section.read_integer("resize", 8, _MAX_RESIZE)
    interpolation = section.read_text("interpolation", DEFAULT_INTERPOLATION)
    check_resizing(resize, record.size, interpolation)
    return replace(record, resize=resize, interpolation=interpolation)


def _read_normalisation(section: TomlTable, record: DatasetRecord) -> DatasetRecord:
    if "mean" not in section and "std" not in section:
        return record
    largest = section.read_number("range", 1, 255) if "range" in section else None
    mean, std = section.read_numbers("mean"), section.read_numbers("std")
    mean, std = parse_mean_and_std(mean, std, largest, record.channels, "it")
    return replace(record, mean=mean, std=std)


def read_published_preprocessing(name: str) -> DatasetRecord:
    """Return the preprocessing of published weights of torchvision or timm; raise CallerError if there is none."""
    library, _, rest = name.partition(":")
    if library == "torchvision" and rest:
        return _read_torchvision_preprocessing(*rest.partition("/")[::2])
    if library == "timm" and rest:
        return _read_timm_preprocessing(rest)
    raise CallerError(f"preprocessing is '{name}', expected torchvision:NAME/WEIGHTS or timm:NAME")


def _read_torchvision_preprocessing(network: str, weights: str) -> DatasetRecord:
    networks = import_module("roarbench.compute.torchvision_networks")
    preset: Any = networks.find_torchvision_weights(network, weights).transforms()
    (resize,), (crop,) = preset.resize_size, preset.crop_size
    record = make_user_dataset_record("", len(preset.mean), crop)
    mean, std = parse_mean_and_std(preset.mean, preset.std, 1, record.channels, f"torchvision:{network}")
    return replace(record, resize=resize, interpolation=preset.interpolation.value, mean=mean, std=std)


def _read_timm_preprocessing(network: str) -> DatasetRecord:
    timm = import_module("roarbench.compute.external_networks").import_timm_and_check_network(network)
    config = timm.get_pretrained_cfg(network)
    if config is None or config.crop_mode != "center":
        seen = f"timm:{network} " + (f"crops by {config.crop_mode}" if config else "has no preprocessing")
        raise CallerError(f"{seen}; write size, resize, interpolation, mean and std instead")
    channels, _, size = config.input_size
    record = make_user_dataset_record("", channels, size)
    mean, std = parse_mean_and_std(config.mean, config.std, 1, channels, f"timm:{network}")
    resize = math.floor(size / config.crop_pct)
    return replace(record, resize=resize, interpolation=config.interpolation, mean=mean, std=std)
