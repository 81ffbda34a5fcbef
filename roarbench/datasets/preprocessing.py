"""Preprocess photographs for a given network: resize, crop, mean and standard deviation. Nothing here imports torch."""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from roarbench.common.errors import CallerError
from roarbench.datasets.catalogue import DatasetRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

_MAX_PIXEL = 255
Moments = tuple[tuple[float, ...], tuple[float, ...]]  # mean and standard deviation per channel
DEFAULT_INTERPOLATION = "bilinear"
INTERPOLATIONS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")  # filters that every Pillow has


def parse_mean_and_std(mean: Any, std: Any, largest: Any, channels: int, source: str) -> Moments:
    """Return mean and standard deviation of each channel for images in [0, 255].

    Args:
        mean: A number per channel, for images in [0, `largest`].
        std: A number per channel.
        largest: Largest pixel value to which the numbers refer. None means 1 if no number exceeds 1, else 255.
        channels: Number of channels of the images.
        source: Name of the source of the numbers, for messages.

    Raises:
        CallerError: The numbers are unsuitable, or `largest` is None and the numbers suit both 1 and 255.
    """
    means, stds = _read_numbers_if_finite(mean), _read_numbers_if_finite(std)
    seen = f"{source} has mean {_format_value(mean)} and std {_format_value(std)}"
    if len(means) != channels or len(stds) != channels or min(stds) <= 0:
        raise CallerError(f"{seen}; expected {channels} numbers each, with std above 0")
    if largest is None and not any(means) and set(stds) == {1.0}:
        ways = "std = [255, …] for [0, 1], or range = 255 for [0, 255]"
        raise CallerError(f"{seen}, which suits images in [0, 1] and images in [0, 255]; write {ways}")
    if largest is None:
        largest = 1 if max(map(abs, (*means, *stds))) <= 1 else _MAX_PIXEL
    (top,) = _read_numbers_if_finite([largest]) or (0.0,)
    if top <= 0:
        seen = f"{source} has range {_format_value(largest)}"
        raise CallerError(f"{seen}; expected the largest value of a pixel, 1 or 255")
    return tuple(number * (_MAX_PIXEL / top) for number in means), tuple(number * (_MAX_PIXEL / top) for number in stds)


def _read_numbers_if_finite(value: Any) -> Sequence[float]:
    """Return the numbers in a list, array or tensor, or an empty tuple if an item is not a finite number."""
    try:
        numbers = tuple(map(float, value.tolist() if hasattr(value, "tolist") else value))
    except (TypeError, ValueError):
        return ()
    texts = isinstance(value, str) or any(isinstance(item, str | bool) for item in value)
    return () if texts or not all(map(math.isfinite, numbers)) else numbers


def _format_value(value: Any) -> str:
    text = " ".join(str(value.tolist() if hasattr(value, "tolist") else value).split())
    return text if len(text) < 80 else f"{text[:80]}…"


def crop_centre_square(image: "Image", size: int, crop: float = 1.0) -> "Image":
    """Cut the centred square, whose side is `crop` times the short side, and resize it to `size` x `size`.

    `crop = 224 / 256` is ImageNet's usual crop for testing: it resizes the short side to 256 and cuts out the centre of
    224. Pillow's bicubic filter does not alias, because its support widens when the image is reduced. An image that
    already has the right size is unchanged.
    """
    from PIL.Image import Resampling  # imported here, because commands that read results need no Pillow

    width, height = image.size
    side = round(min(width, height) * crop)
    left, top = (width - side) // 2, (height - side) // 2
    return image.resize((size, size), Resampling.BICUBIC, box=(left, top, left + side, top + side))


def resize_and_centre_crop(image: "Image", resize: int, size: int, interpolation: str) -> "Image":
    """Scale the short side to `resize` pixels, then cut the centred square of `size` pixels.

    The function rounds the long side down, and rounds half pixels of the margins to even numbers, as do torchvision's
    `Resize` and `CenterCrop`, which timm uses, too. A program that rounds the long side to the nearest pixel scales
    some photographs to one pixel more.
    """
    from PIL.Image import Resampling

    short = min(image.size)
    width, height = (int(resize * side / short) for side in image.size)
    resized = image.resize((width, height), Resampling[interpolation.upper()])
    left, top = round((width - size) / 2), round((height - size) / 2)
    return resized.crop((left, top, left + size, top + size))


def crop_to_pixels(image: "Image", record: DatasetRecord) -> "NDArray[np.uint8]":
    """Return the centred square of an image, uint8 (channels, size, size), in grey if the record has one channel."""
    import numpy as np  # `--help` reads this module, and must not import NumPy

    mode, size = "L" if record.channels == 1 else "RGB", record.size
    plain = image if image.mode == mode else image.convert(mode)  # `convert` copies even without a change of mode
    if record.resize:
        pixels = np.asarray(resize_and_centre_crop(plain, record.resize, size, record.interpolation))
    else:
        pixels = np.asarray(crop_centre_square(plain, size, record.crop))
    return pixels.reshape(size, size, record.channels).transpose(2, 0, 1)


def check_resizing(resize: Any, size: Any, interpolation: str) -> None:
    """Raise CallerError for settings that `resize_and_centre_crop` does not support."""
    for name, pixels in (("resize", resize), ("crop", size)):
        if not isinstance(pixels, Integral) or pixels < 1:
            raise CallerError(f"{name} is {pixels!r}, expected a whole number of pixels, 1 or more")
    if resize < size:
        seen = f"resize is {resize}, but the square to cut out has {size} pixels per side"
        raise CallerError(f"{seen}; write resize = {size} or more")
    if interpolation not in INTERPOLATIONS:
        raise CallerError(f"interpolation is '{interpolation}', expected {', '.join(INTERPOLATIONS)}")


def check_window(window: Sequence[float]) -> None:
    """Raise CallerError unless a window is empty, or has two finite numbers in ascending order."""
    if window and not (len(window) == 2 and -math.inf < window[0] < window[1] < math.inf):
        seen = f"window is [{', '.join(f'{number:g}' for number in window)}]"
        raise CallerError(f"{seen}, expected the values that become black and white, such as [-1000, 1000]")
