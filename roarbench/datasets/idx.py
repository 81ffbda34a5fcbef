"""Reads IDX, the format of MNIST's own files, plain or gzipped.

A file is two zero bytes, a byte for the type (8: uint8), a byte for the number of dimensions, each dimension as a
big-endian int32, then the values (LeCun, Cortes and Burges, "The MNIST database of handwritten digits").
"""

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.enums import Split
from roarbench.errors import DataError

_PREFIX = {Split.TRAIN: "train", Split.TEST: "t10k"}


def has_idx(folder: Path) -> bool:
    """Return whether a folder holds IDX files of images."""
    return any(folder.glob("*-images-idx3-ubyte*"))


def read_idx(folder: Path, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read pixels uint8 (n, 1, h, w) and labels int64 (n,) of one split; DataError where a file is damaged."""
    images = _read_array(folder, f"{_PREFIX[split]}-images-idx3-ubyte", dimensions=3)
    labels = _read_array(folder, f"{_PREFIX[split]}-labels-idx1-ubyte", dimensions=1)
    return images[:, np.newaxis], labels.astype(np.int64)


def _read_array(folder: Path, name: str, dimensions: int) -> NDArray[np.uint8]:
    path = next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)
    if path is None:
        raise DataError(f"{folder} has no {name} or {name}.gz; expected all four IDX files")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if content[:4] != bytes((0, 0, 8, dimensions)):
        raise DataError(f"{path} starts with {content[:4].hex(' ')}, expected an IDX file of {dimensions} dimension(s)")
    header = 4 + 4 * dimensions
    shape = tuple(int(length) for length in np.frombuffer(content[4:header], ">i4"))
    if len(content) - header != np.prod(shape):
        raise DataError(f"{path} has {len(content) - header} values, its header says {shape}; fetch it again")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
