"""Read the section of a suite's TOML file that describes its images and their preprocessing (docs/own-data.md).

torchvision and timm are imported only if the TOML file names them.
"""

import math
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from roarbench.common.errors import CallerError
from roarbench.datasets.catalogue import (
    FOLDERS,
    OWN_IMAGES,
    PARQUET,
    TABLE,
    WHOLE_PATH,
    DatasetRecord,
    find_dataset,
    make_user_dataset_record,
)
from roarbench.datasets.preprocessing import DEFAULT_INTERPOLATION, check_resizing, check_window, parse_mean_and_std
from roarbench.datasets.undecoded_splits import add_class_and_image_counts
from roarbench.plan.suite_sections import append_record_hash
from roarbench.plan.toml_table import TomlTable

_MAX_COUNT = 10**9  # maximum number of classes or images
_MAX_DEPTH = 9  # maximum level of the folders that name classes
# maximum side of the decoded square, and maximum length of the shorter side of a resized photograph, in pixels
_MAX_SIZE, _MAX_RESIZE = 512, 4096


def read_data_section(section: TomlTable, base: Path, name: str) -> DatasetRecord:
    """Read the data set of section `[data]` and count its images.

    `name` is the data set's name if the section has none. Paths in the section are relative to `base`.
    """
    kinds = [key for key in ("images", "parquet", "table", "hub", "known") if key in section]
    if len(kinds) != 1:
        seen = f"has {' and '.join(kinds)}" if kinds else "does not say where the data are"
        ways = 'images = "FOLDER", parquet = "FOLDER", table = "FILE", hub = "OWNER/NAME", known = "cifar10"'
        raise section.make_error(f"{seen}; write one of {ways}")
    if kinds == ["known"]:
        with section.add_location_to_errors():
            known = find_dataset(section.read_text("known"))
        section.refuse_unread_keys()
        return known
    # the columns of a table are counted later, so the record starts with 1 channel of 1 pixel
    record = make_user_dataset_record("", 1, 1) if kinds == ["table"] else _read_values_and_preprocessing(section)
    record = replace(record, name=section.read_text("name", name), about=section.read_text("about", OWN_IMAGES))
    readers = {"images": _read_images, "parquet": _read_parquet, "table": _read_table, "hub": _read_hub}
    record = replace(record, **readers[kinds[0]](section, base))
    section.refuse_unread_keys()
    with section.add_location_to_errors():
        return append_record_hash(record.name, add_class_and_image_counts(record) if record.own else record)


def _read_splits_or_share(section: TomlTable, single_split_name: str) -> dict[str, Any]:
    """Read the names of the splits; with `test_share`, there is a single split, from which test images are drawn."""
    split_keys = [key for key in ("train", "test") if key in section]
    if "test_share" in section:
        if split_keys:
            remedy = "write either train and test, or only test_share"
            raise section.make_error(f"has {split_keys[0]} and test_share; {remedy}")
        return _read_share(section) | dict.fromkeys(("train_split", "test_split"), single_split_name)
    if "test" not in split_keys:
        seen = "has train and no test" if split_keys else "names no split"
        remedy = 'write train = "…" and test = "…", or test_share = 0.2 to draw the test images'
        raise section.make_error(f"{seen}; {remedy}")
    test = section.read_text("test")
    train = section.read_text("train", test)
    if "train" in split_keys and train == test:
        remedy = "write two different splits, or only test_share = 0.2"
        raise section.make_error(f"train and test are both '{train}'; {remedy}")
    return {"train_split": train, "test_split": test}


def _read_share(section: TomlTable) -> dict[str, Any]:
    return {"share": section.read_number("test_share", 0.01, 0.9), "seed": section.read_integer("seed", 0, 2**31, 0)}


def _read_class_count_and_numbering(section: TomlTable) -> dict[str, Any]:
    """Read the number of classes; if the section has this number, labels are indices of the network's outputs."""
    classes = section.read_integer("classes", 2, _MAX_COUNT, 0)
    return {"classes": classes, "numbered": classes > 0}


def _read_images(section: TomlTable, base: Path) -> dict[str, Any]:
    fields: dict[str, Any] = {"own": FOLDERS, "folder": _read_path(section, "images", base)}
    if section.has_value("class_depth", "last"):
        fields["class_depth"] = WHOLE_PATH
    elif "class_depth" in section:
        fields["class_depth"] = section.read_integer("class_depth", 1, _MAX_DEPTH)
    if "leave_out" in section:
        fields["left_out"] = section.read_texts("leave_out")
    columns = ("path_column", "label_column", "split_column")
    if "labels" in section:
        fields["label_files"] = section.read_text_or_texts("labels")
        for file in fields["label_files"]:
            if Path(file).is_absolute() or ".." in Path(file).parts:
                seen = f"labels is '{file}', expected a path relative to the folder of images and inside it"
                raise section.make_error(f"{seen}; write in images the folder that holds images and label files")
        fields |= {key: section.read_text(key, "") for key in columns}
    elif present := [key for key in columns if key in section]:
        raise section.make_error(f'has {present[0]}, but no labels; write labels = "FILE" too')
    return fields | _read_splits_or_share(section, ".") | _read_class_count_and_numbering(section)


def _read_parquet(section: TomlTable, base: Path) -> dict[str, Any]:
    own = {"own": PARQUET, "folder": _read_path(section, "parquet", base)}
    splits, classes = _read_splits_or_share(section, "train"), _read_class_count_and_numbering(section)
    return own | splits | classes | _read_column_names(section)


def _read_table(section: TomlTable, base: Path) -> dict[str, Any]:
    own = {"own": TABLE, "folder": _read_path(section, "table", base, "a parquet or CSV file")}
    label = section.read_text("label_column", "label")
    columns = section.read_texts("columns") if "columns" in section else ()
    return own | {"label_column": label, "columns": columns} | _read_share(section)


def _read_column_names(section: TomlTable) -> dict[str, Any]:
    return {f"{kind}_column": section.read_text(f"{kind}_column", kind) for kind in ("image", "label")}


def _read_hub(section: TomlTable, base: Path) -> dict[str, Any]:
    hub, revision = section.read_text("hub"), section.read_text("revision")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", hub):
        raise section.make_error(f"hub is '{hub}', expected OWNER/NAME as in the address of its page")
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        seen = f"revision is '{revision}', expected the 40 digits of a commit, so that the data stay the same"
        raise section.make_error(f"{seen}; the data set's page on the hub lists commits under Files, History")
    named = _read_splits_or_share(section, "train") | _read_column_names(section)
    least = {"classes": 2, "train_images": 2, "test_images": 1}
    counts = {key: section.read_integer(key, low, _MAX_COUNT) for key, low in least.items()}
    return {"hub": hub, "revision": revision, "config": section.read_text("config", "")} | named | counts


def _read_path(section: TomlTable, key: str, base: Path, kind: str = "a folder") -> str:
    path = (base / section.read_text(key)).resolve()
    is_fitting, other = (path.is_dir(), "a file") if kind == "a folder" else (path.is_file(), "a folder")
    if not is_fitting:
        state = other if path.exists() else "missing"
        raise section.make_error(f"{key} is {state}: {path}; write the path of {kind}, relative to the suite's file")
    return str(path)


class PreprocessingRecord(NamedTuple):
    """The preprocessing of photographs."""

    resize: int  # pixels of the shorter side after resizing
    crop: int  # side of the central square that is kept, in pixels
    interpolation: str  # name of the resampling filter in Pillow
    mean: tuple[float, ...]  # mean and std of each channel, for pixels in [0, 255]
    std: tuple[float, ...]


def _read_values_and_preprocessing(section: TomlTable) -> DatasetRecord:
    """Return a data set's record with the values and the preprocessing of images in section `[data]`."""
    channels = section.read_integer("channels", 1, 3, 3)
    if channels == 2:
        raise section.make_error("channels is 2, expected 1 (grey) or 3 (colour)")
    depth = section.read_integer("depth", 8, 32) if "depth" in section else 0
    window = section.read_numbers("window") if "window" in section else ()
    if depth and window:
        raise section.make_error("has depth and window; leave one of them out")
    with section.add_location_to_errors():
        check_window(window)
    if "preprocessing" in section:
        return replace(_read_preprocessing_of_published_weights(section, channels), depth=depth, window=window)
    record = make_user_dataset_record("", channels, section.read_integer("size", 8, _MAX_SIZE))
    record = replace(record, depth=depth, window=window)
    if "mean" in section or "std" in section:
        largest = section.read_number("range", 1, 255) if "range" in section else None
        mean, std = section.read_numbers("mean"), section.read_numbers("std")
        with section.add_location_to_errors():
            mean, std = parse_mean_and_std(mean, std, largest, channels, "it")
        record = replace(record, mean=mean, std=std)
    if "resize" not in section:
        if "interpolation" in section:
            raise section.make_error("has interpolation without resize; write resize = N (short side in pixels)")
        return replace(record, crop=section.read_number("crop", 0.1, 1.0, 1.0))
    if "crop" in section:
        why = "size is the side of the square that is cut out after resizing"
        raise section.make_error(f"has crop and resize; leave crop out, because {why}")
    resize = section.read_integer("resize", 8, _MAX_RESIZE)
    interpolation = section.read_text("interpolation", DEFAULT_INTERPOLATION)
    with section.add_location_to_errors():
        check_resizing(resize, record.size, interpolation)
    return replace(record, resize=resize, interpolation=interpolation)


def _read_preprocessing_of_published_weights(section: TomlTable, channels: int) -> DatasetRecord:
    name = section.read_text("preprocessing")
    for key in ("size", "crop", "resize", "interpolation", "mean", "std", "range"):
        if key in section:
            raise section.make_error(f"has preprocessing and {key}; leave one of them out")
    with section.add_location_to_errors():
        published = read_published_preprocessing(name)
        check_resizing(published.resize, published.crop, published.interpolation)
    if len(published.mean) != channels or published.crop > _MAX_SIZE:
        seen = f"{name} is for images of {len(published.mean)} channels and {published.crop} pixels"
        raise section.make_error(f"{seen}, expected {channels} channels and at most {_MAX_SIZE} pixels per side")
    record = make_user_dataset_record("", channels, published.crop)
    return replace(
        record, resize=published.resize, interpolation=published.interpolation, mean=published.mean, std=published.std
    )


def read_published_preprocessing(name: str) -> PreprocessingRecord:
    """Return the preprocessing of published weights of torchvision or timm.

    Raises:
        CallerError: The library has no such weights, or their preprocessing does not crop the centre.
    """
    library, _, rest = name.partition(":")
    network, _, weights = rest.partition("/")
    if library == "torchvision" and rest:
        networks = import_module("roarbench.compute.torchvision_networks")
        preset: Any = networks.find_torchvision_weights(network, weights).transforms()
        (resize,), (crop,) = preset.resize_size, preset.crop_size
        moments = parse_mean_and_std(preset.mean, preset.std, 1, len(preset.mean), f"torchvision:{network}")
        return PreprocessingRecord(resize, crop, preset.interpolation.value, *moments)
    if library != "timm" or not rest:
        raise CallerError(f"preprocessing is '{name}', expected torchvision:NAME/WEIGHTS or timm:NAME")
    timm = import_module("roarbench.compute.external_networks").import_timm_and_check_network(rest)
    config = timm.get_pretrained_cfg(rest)
    if config is None:
        raise CallerError(f"timm:{rest} has no preprocessing; write size, resize, interpolation, mean and std instead")
    channels, _, size = config.input_size
    resize = math.floor(size / config.crop_pct)
    if config.crop_mode != "center":  # square photographs need neither squashing nor a border
        ways = {"squash": "scales both sides to one length", "border": "pads the short side"}
        seen = f"timm:{rest} crops by {config.crop_mode}: it {ways.get(config.crop_mode, 'does not cut the centre')}"
        keys = f'size = {size}, resize = {resize}, interpolation = "{config.interpolation}"'
        keys += f", mean = {list(config.mean)}, std = {list(config.std)}"
        raise CallerError(f"{seen}, and roarbench cuts the centre; make photographs square, and write {keys}")
    moments = parse_mean_and_std(config.mean, config.std, 1, channels, f"timm:{rest}")
    return PreprocessingRecord(resize, size, config.interpolation, *moments)
