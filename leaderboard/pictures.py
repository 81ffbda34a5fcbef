"""Pictures of a strip: an image, an estimator's map and what is left, as arrays and as small files."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from leaderboard.strip import Bytes, Strip

SIDE = 128  # pixels that a picture is shown at, at least

# Heat from black over red and yellow to white: four anchors, read off in grey as rising brightness
_ANCHORS = np.array([[0, 0, 0], [180, 30, 20], [250, 190, 40], [255, 255, 255]], dtype=np.float64)


def original(strip: Strip, image: int) -> Bytes:
    """A test image, uint8 (h, w, 3)."""
    return _rgb(strip.pixels[image])


def degraded(strip: Strip, estimator: str, image: int, t: float) -> Bytes:
    """What is left of it when an estimator's most important features are gone, uint8 (h, w, 3)."""
    return _rgb(strip.degraded(estimator, t)[image])


def heat(strip: Strip, estimator: str, image: int) -> Bytes:
    """An estimator's map of it, bright where features are removed first, uint8 (h, w, 3)."""
    values = strip.heat(estimator)[image] * (len(_ANCHORS) - 1)
    low = np.minimum(values.astype(int), len(_ANCHORS) - 2)
    share = (values - low)[..., None]
    colours: Bytes = np.rint(_ANCHORS[low] * (1 - share) + _ANCHORS[low + 1] * share).astype(np.uint8)
    return colours


def _rgb(pixels: NDArray[np.uint8]) -> Bytes:
    colour = np.moveaxis(pixels, 0, -1)
    return np.broadcast_to(colour, (*colour.shape[:2], 3))


def enlarged(picture: Bytes) -> Bytes:
    """A picture with every pixel repeated until it is `SIDE` wide."""
    times = max(1, SIDE // picture.shape[1])
    return picture.repeat(times, 0).repeat(times, 1)


def png(picture: Bytes) -> bytes:
    """A picture as a small file: a PNG of 64 colours, since JPEG would blur the removed features."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).quantize(64).save(file, "PNG", optimize=True)
    return file.getvalue()


def data_uri(picture: Bytes) -> str:
    """A picture as a text that a file of records can hold."""
    return f"data:image/png;base64,{base64.b64encode(png(picture)).decode()}"
