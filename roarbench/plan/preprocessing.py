"""Reads how a suite's images are to be prepared, and looks up what torchvision and timm do for their networks.

Both are imported where a file names them only.
"""

import math
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from roarbench.datasets import DatasetRecord, make_own_record
from roarbench.datasets.normalisation import read_moments
from roarbench.datasets.resizing import check_resizing
from roarbench.errors import CallerError, UnknownName
from roarbench.plan.toml_table import TomlTable

_LARGEST, _MOST = 512, 4096  # pixels per side, of the square and of what it is cut from
_NAMES = "torchvision:NAME/WEIGHTS or timm:NAME"


class PreprocessingRecord(NamedTuple):
    """Steps from a photograph to the numbers that a network sees."""

    resize: int  # pixels of the short side
    crop: int  # pixels per side of the square that is cut out of the middle then
    interpolation: str  # one of Pillow's filters
    mean: tuple[float, ...]  # mean, std: of each channel, of images in [0, 255]
    std: tuple[float, ...]


def read_preprocessing(section: TomlTable, channels: int) -> DatasetRecord:
    """Return the record of images of so many channels, prepared as the section `[data]` of a suite's file says."""
    if "preprocessing" in section:
        return _read_published_section(section, channels)
    record = _read_normalisation(section, make_own_record("", channels, section.whole("size", 8, _LARGEST)))
    if "resize" not in section:
        if "interpolation" in section:
            raise section.wrong("has interpolation without resize; write resize = N, pixels of the short side")
        return replace(record, crop=section.number("crop", 0.1, 1.0, 1.0))
    if "crop" in section:
        raise section.wrong("has crop and resize; size is the side of the square that is cut out after resize")
    resize, interpolation = section.whole("resize", 8, _MOST), section.text("interpolation", "bilinear")
    with section.naming():
        check_resizing(resize, record.size, interpolation)
    return replace(record, resize=resize, interpolation=interpolation)


def _read_published_section(section: TomlTable, channels: int) -> DatasetRecord:
    """Return the record of images as weights of torchvision's or timm's want them."""
    name = section.text("preprocessing")
    for key in ("size", "crop", "resize", "interpolation", "mean", "std", "range"):
        if key in section:
            raise section.wrong(f"has preprocessing and {key}; leave one of them out")
    with section.naming():
        found = read_published(name)
        check_resizing(found.resize, found.crop, found.interpolation)
    if len(found.mean) != channels or found.crop > _LARGEST:
        seen = f"{name} is for images of {len(found.mean)} channels and {found.crop} pixels"
        raise section.wrong(f"{seen}, channels is {channels} and sides have {_LARGEST} pixels at most")
    record = make_own_record("", channels, found.crop)
    return replace(record, resize=found.resize, interpolation=found.interpolation, mean=found.mean, std=found.std)


def _read_normalisation(section: TomlTable, record: DatasetRecord) -> DatasetRecord:
    """Return the record with what networks want images normalised with, where the file says so."""
    if "mean" not in section and "std" not in section:
        return record
    top = section.number("range", 1, 255) if "range" in section else None
    mean, std = section.listed("mean"), section.listed("std")
    with section.naming():
        mean, std = read_moments(mean, std, top, record.channels, "it")
    return replace(record, mean=mean, std=std)


def read_published(name: str) -> PreprocessingRecord:
    """Return what weights published by torchvision, `torchvision:NAME/WEIGHTS`, or by timm, `timm:NAME`, are made for.

    Raises:
        CallerError: There are no such weights, timm is not installed, or it distorts images, which is not done here.
    """
    library, _, rest = name.partition(":")
    if library == "torchvision" and rest:
        return _read_torchvision(*rest.partition("/")[::2])
    if library == "timm" and rest:
        return _read_timm(rest)
    raise CallerError(f"preprocessing is '{name}', expected {_NAMES}")


def _read_torchvision(network: str, weights: str) -> PreprocessingRecord:
    preset: Any = import_module("roarbench.models.torchvision_models").find_weights(network, weights).transforms()
    (resize,), (crop,) = preset.resize_size, preset.crop_size
    moments = read_moments(preset.mean, preset.std, 1, len(preset.mean), f"torchvision:{network}")
    return PreprocessingRecord(resize, crop, preset.interpolation.value, *moments)


def _read_timm(network: str) -> PreprocessingRecord:
    try:
        timm = import_module("timm")
    except ImportError:
        raise CallerError(f"timm:{network} needs timm, which is not installed; write pip install timm") from None
    if not timm.is_model(network):
        raise UnknownName("network of timm", network, timm.list_models())
    about = timm.get_pretrained_cfg(network)
    if about is None or about.crop_mode != "center":
        seen = f"timm:{network} has no preprocessing" if about is None else f"timm:{network} crops by {about.crop_mode}"
        raise CallerError(f"{seen}; write size, resize, interpolation, mean and std instead")
    channels, _, size = about.input_size
    moments = read_moments(about.mean, about.std, 1, channels, f"timm:{network}")
    return PreprocessingRecord(math.floor(size / about.crop_pct), size, about.interpolation, *moments)
