"""Superpixels: parts of an image of like colour, found once for each image by SLIC and kept beside the decoded pixels.

FOLDER/superpixels-64/
  train-000000.npy   uint16 (500, h, w), the number of each pixel's superpixel, for images 0 to 499 of the split
  train-000000.json  written last: checksum, version of scikit-image, parameters
"""

import importlib.util
import json
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.enums import Split
from roarbench.errors import CallerError, StoreError
from roarbench.files import compute_sha256, lock_file, write_whole

SEGMENTS = 64  # as many as `patch:8` has at 64 x 64; SLIC finds a few more or less
_COMPACTNESS = 10.0  # scikit-image's default: how much nearness counts beside likeness of colour
_PARAMETERS = {"segments": SEGMENTS, "compactness": _COMPACTNESS}
_CHUNK = 500  # images of one file


def require_slic() -> None:
    """Raise CallerError where scikit-image, which finds superpixels, is not installed."""
    if importlib.util.find_spec("skimage") is None:
        raise CallerError("unit superpixel needs scikit-image, which is not installed; write pip install scikit-image")


def compute_superpixels(image: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Return the superpixels of an image, uint8 (c, h, w), by SLIC (Achanta et al. 2012), each in one piece.

    Colours are compared in CIELAB, as there. The numbers, uint16 (h, w), begin at 0; there are about `SEGMENTS`.
    """
    from skimage.segmentation import slic

    colour = np.repeat(image, 3, axis=0) if len(image) == 1 else image
    found = slic(colour, SEGMENTS, _COMPACTNESS, start_label=0, enforce_connectivity=True, channel_axis=0)
    labels: NDArray[np.uint16] = found.astype(np.uint16)
    return labels


def load_superpixels(
    folder: Path, split: Split, pixels: NDArray[np.uint8], start: int, stop: int
) -> NDArray[np.uint16]:
    """Return the superpixels of images `start` … `stop - 1` of pixels uint8 (n, c, h, w), uint16 (stop - start, h, w).

    What is not kept in the folder of the decoded data yet is found; CallerError where scikit-image is not installed for
    that, StoreError where what is kept is damaged.
    """
    chunks = range(start // _CHUNK * _CHUNK, stop, _CHUNK)
    found = np.concatenate([_chunk(folder / f"superpixels-{SEGMENTS}", split, pixels, first) for first in chunks])
    return found[start - chunks.start : stop - chunks.start]


def _chunk(folder: Path, split: Split, pixels: NDArray[np.uint8], first: int) -> NDArray[np.uint16]:
    labels, note = (folder / f"{split}-{first:06}{ending}" for ending in (".npy", ".json"))
    if not note.exists():
        require_slic()
        with lock_file(folder / f".{labels.stem}.lock", folder):
            if not note.exists():
                _find(labels, note, pixels[first : first + _CHUNK])
    return _read_kept(labels, note, labels.stat().st_mtime_ns)


@lru_cache(maxsize=2)  # batches are smaller than chunks, and come one after the other
def _read_kept(labels: Path, note: Path, changed: int) -> NDArray[np.uint16]:
    """Return what a file holds; `changed` is when it was written."""
    if compute_sha256(labels) != json.loads(note.read_text())["sha256"]:
        seen = f"{labels} was altered: its checksum is not the one noted"
        raise StoreError(f"{seen}; delete {labels.parent} and run again")
    found: NDArray[np.uint16] = np.load(labels)
    found.setflags(write=False)
    return found


def _find(path: Path, note: Path, pixels: NDArray[np.uint8]) -> None:
    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, np.stack([compute_superpixels(image) for image in pixels]))

    write_whole(path, save, path.with_name(f".{path.name}.partial"))
    said = {"sha256": compute_sha256(path), "scikit-image": version("scikit-image"), **_PARAMETERS}
    write_whole(note, lambda temporary: temporary.write_text(json.dumps(said)), note.with_name(f".{note.name}.partial"))
