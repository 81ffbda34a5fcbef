"""Convert a caller's images, photographs, labels, maps and numbers, or raise CallerError with a one-line message."""

import hashlib
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.common.errors import CallerError
from roarbench.common.files import convert_read_errors
from roarbench.common.text import describe_error, describe_type
from roarbench.compute.ranking import have_byte_values
from roarbench.datasets.catalogue import make_user_dataset_record
from roarbench.datasets.decode_image import FEW_BITS, FEW_SHADES, decode_image, decode_picture, is_damage
from roarbench.datasets.preprocessing import DEFAULT_INTERPOLATION, check_resizing, parse_mean_and_std
from roarbench.datasets.stored_format import UnusableValues
from roarbench.plan.data_section import read_published_preprocessing
from roarbench.submissions.limits_and_faults import BYTE_VALUES

IMAGE_SHAPE = "(n, c, h, w), or (n, columns, 1, 1) for a table"
_OUTLIER_SHARE = 1e-4  # share of the values at each end that may be outliers
_TESTED_FOR_BYTES = 16  # maps of an array
_SAMPLED_VALUES = 10**6  # per channel, for the quantiles


class ValueRange(NamedTuple):
    """Smallest and largest value of each channel, float64 (c,)."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


def warn_caller(message: str) -> None:
    """Warn in the name of the first function on the call stack that is outside of this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals["__name__"].startswith("roarbench."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def warn_of_byte_values(title: str, maps: NDArray[Any]) -> None:
    """Warn if the first of some maps (n, …), named by a title, look as if they were cast to bytes."""
    if have_byte_values(maps[:_TESTED_FOR_BYTES]):
        warn_caller(f"the {title} have {BYTE_VALUES}")


def to_array(values: Any, subject: str = "the values", expected: str = "real numbers") -> NDArray[Any]:
    """Convert an array, a tensor or nested lists of numbers to a numeric array in native byte order."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise CallerError(f"{subject} are a masked array; fill it with .filled(VALUE)")
    try:
        if isinstance(values, list | tuple) and values and all(isinstance(value, Tensor) for value in values):
            values = torch.stack([*values])  # NumPy takes no tensors that need gradients or lie on a GPU
        if isinstance(values, Tensor):
            values = values.detach().cpu()
            if values.is_floating_point() and values.dtype.itemsize < 4:
                values = values.float()  # NumPy has no bfloat16
        array = np.asarray(values)
        array = np.array(array.tolist()) if array.dtype == object else array  # numbers of a column of objects
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
    except (TypeError, ValueError, RuntimeError) as error:  # from NumPy and torch: ragged lists, sparse tensors …
        seen = f"{subject} are {describe_type(values)}, which cannot be read as an array ({describe_error(error)})"
        raise CallerError(f"{seen}; pass one array or tensor") from None
    if array.dtype.kind not in "biuf":
        seen = f"have type {array.dtype}"
        if array.dtype.kind in "OSU":  # the type of the array says little
            others = [value for value in array.ravel().tolist() if array.ndim and not isinstance(value, Real)]
            seen = f"hold {others[0]!r}" if others else f"are {describe_type(values)}"
        raise CallerError(f"{subject} {seen}, expected {expected}")
    return np.ascontiguousarray(array) if array.ndim else array


def to_tensor(values: Any, subject: str = "the values") -> Tensor:
    """Convert values to a tensor on the CPU, with the checks of `to_array`."""
    array = to_array(values, subject)
    return torch.as_tensor(array if array.flags.writeable else array.copy())  # torch warns of read-only memory


def read_images(images: Any, subject: str = "images") -> Tensor:
    """Convert images, finite floats (n, c, h, w), to float32."""
    expected = f"expected floats {IMAGE_SHAPE}, normalised as for the network"
    remedies = "rb.Preprocessing prepares photographs; a loader has torch.cat([images for images, _ in loader])"
    array = to_array(images, subject, f"an array or a tensor ({remedies}); {expected}")
    if array.ndim != 4 or not array.size or array.dtype.kind != "f":
        raise CallerError(f"{subject} have shape {array.shape} and type {array.dtype}; {expected}")
    with np.errstate(over="ignore"):
        array = array.astype(np.float32, copy=False)
    if not np.isfinite(array).all():
        number = int(np.argmin(np.isfinite(array).all((1, 2, 3))))
        raise CallerError(f"{subject}: number {number} holds NaN or infinity; expected finite numbers")
    count, channels, height, width = array.shape
    copies = count - len({hashlib.blake2b(image).digest() for image in array})
    if copies and height * width > 1 and subject != "train images":  # rows of a table may be equal
        warn_caller(f"{copies} of the {count} {subject} repeat another one, so intervals are too short; pass each once")
    if width in (1, 3, 4) and min(channels, height) > 4 and (width > 1 or channels == height):
        seen = f"{subject} of shape {array.shape} are read as {channels} channels of {height} x {width} pixels"
        remedy = "pass images.permute(0, 3, 1, 2), and a network that takes them"
        warn_caller(f"{seen}; if the last axis has the channels, {remedy}")
    return to_tensor(array)


def is_table(images: Tensor) -> bool:
    """Return whether images (n, c, h, w) are rows of a table: images of one pixel with one channel per column."""
    return images.shape[2:] == (1, 1)


def read_labels(labels: Any, count: int, subject: str = "labels") -> NDArray[np.int64]:
    """Convert labels, whole numbers of any type except bool in shape (n,) or (n, 1), to int64 (n,)."""
    expected = "expected whole numbers from 0, the class of each image"
    array = to_array(labels, subject, expected.removeprefix("expected "))
    if array.dtype == np.bool_:
        raise CallerError(f"{subject} are bool, and labels are class numbers; {expected}")
    array = array[:, 0] if array.shape == (count, 1) else array
    if array.shape != (count,):
        is_one_hot = array.ndim == 2 and len(array) == count and bool((np.sort(array)[:, :-1] == 0).all())
        remedy = "; of one-hot labels, labels.argmax(1)" if is_one_hot else ""
        raise CallerError(f"{subject} have shape {array.shape}, expected ({count},); {expected}{remedy}")
    whole = np.isfinite(array) & (np.rint(array) == array)
    if not whole.all():
        raise CallerError(f"{subject} hold {array[~whole][0]}; {expected}")
    return np.array(array, np.int64)  # a copy, because torch warns of read-only memory


def check_labels(labels: NDArray[np.int64], classes: int, subject: str = "labels") -> None:
    """Raise CallerError for labels that are not indices of a network's outputs."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        seen = f"{subject} are from {low} to {high}, and the network has {classes} classes"
        raise CallerError(f"{seen}; expected 0 to {classes - 1}")


def read_real_number(number: Any, subject: str = "a removal fraction") -> float:
    """Convert a fraction; CallerError for anything that is not a number."""
    if not isinstance(number, str | bool):
        with suppress(TypeError, ValueError):
            return float(str(number)) if isinstance(number, np.floating) else float(number)  # float32(0.3) is 0.3
    raise CallerError(f"{subject} is {number!r}, expected a number; 30 % is written 0.3")


def find_channel_ranges_without_outliers(images: NDArray[np.float32]) -> ValueRange:
    """Return the smallest and largest value of each channel of images (n, c, h, w), without far outliers.

    Let I be the interval of the middle 99.98 % of the values. A value is an outlier, such as a hot pixel of a detector,
    if its distance from I exceeds the width of I.
    """
    low, high = (end((0, 2, 3)).astype(np.float64) for end in (images.min, images.max))
    sample = images[:: max(1, images[:, 0].size // _SAMPLED_VALUES)].swapaxes(0, 1).reshape(images.shape[1], -1)
    inner_low, inner_high = np.quantile(sample, (_OUTLIER_SHARE, 1 - _OUTLIER_SHARE), axis=1)
    width = np.where(inner_high > inner_low, inner_high - inner_low, np.inf)  # infinite if all but outliers are equal
    low, high = np.maximum(low, inner_low - width), np.minimum(high, inner_high + width)
    return ValueRange(low, np.where(high == low, low + 1, high))


def quantize(images: NDArray[np.float32], value_range: ValueRange) -> NDArray[np.uint8]:
    """Quantise images (n, c, h, w) to 256 steps over a range, clipped outside of it."""
    low, high = (end[:, None, None] for end in value_range)
    steps: NDArray[np.uint8] = np.rint(255 * ((images - low) / (high - low)).clip(0, 1)).astype(np.uint8)
    return steps


def move_to_model(model: nn.Module, images: Tensor) -> Tensor:
    """Move images to a network's device and dtype."""
    weights = next((tensor for tensor in model.parameters() if tensor.is_floating_point()), images)
    return images.to(weights.device, weights.dtype)


@dataclass(frozen=True)
class Preprocessing:
    """Resize, crop and normalise photographs, as torchvision does.

    `Preprocessing(...)(photographs)` returns a NumPy array, float32 (n, c, crop, crop). Networks take tensors:
    `model(torch.from_numpy(array))`.

    Attributes:
        resize: Length of the short side in pixels; the long side keeps the proportions.
        crop: Side of the square cut from the centre, in pixels.
        interpolation: One of Pillow's filters, such as `bilinear` or `bicubic`; by default `bilinear`.
        mean: Number to subtract from each channel, before the division.
        std: Number by which each channel is divided.
        range: Largest pixel value on the scale of `mean` and `std`, 1 or 255; None means 1 if no number exceeds 1, else
            255. The attributes `mean`, `std` and `range` are rescaled for images in [0, 255].

    Examples:
        >>> prepare = Preprocessing(resize=8, crop=4, mean=[0.5], std=[0.25])
        >>> prepare([PIL.Image.new("L", (8, 8), 255)]).shape
        (1, 1, 4, 4)
    """

    resize: int
    crop: int
    interpolation: str = DEFAULT_INTERPOLATION
    _: KW_ONLY
    mean: Sequence[float]
    std: Sequence[float]
    range: float | None = None

    def __post_init__(self) -> None:
        check_resizing(self.resize, self.crop, self.interpolation)
        moments = parse_mean_and_std(self.mean, self.std, self.range, len(self.mean), "this preprocessing")
        for name, value in zip(("mean", "std", "range"), (*moments, 255), strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, name: str) -> "Preprocessing":
        """Return the preprocessing that torchvision or timm publish for their weights.

        Args:
            name: `torchvision:NAME/WEIGHTS`, such as `torchvision:resnet50/IMAGENET1K_V2`, or `timm:NAME`.

        Raises:
            CallerError: There are no such weights, or timm is not installed.
        """
        return cls(**read_published_preprocessing(name)._asdict(), range=255)

    def __call__(self, photographs: Iterable[Any]) -> NDArray[np.float32]:
        """Return prepared photographs, which are paths or Pillow images, as a NumPy array, float32 (n, c, crop, crop).

        Raises:
            CallerError: The list is empty or not a list, or a file is not an image, or is damaged.
        """
        single = isinstance(photographs, str | Path | PIL.Image.Image) or not isinstance(photographs, Iterable)
        record = make_user_dataset_record("", len(self.mean), self.crop)
        record = replace(record, resize=self.resize, interpolation=self.interpolation)
        mean, std = (np.array(moment, np.float32)[:, None, None] for moment in (self.mean, self.std))
        prepared = []
        for photograph in () if single else photographs:
            if isinstance(photograph, PIL.Image.Image):
                subject = str(getattr(photograph, "filename", "")) or f"an image of mode {photograph.mode}"
                try:
                    decoded = decode_picture(photograph, record)
                except UnusableValues as error:
                    raise CallerError(str(error)) from None
            elif isinstance(photograph, str | Path):
                subject = str(photograph)
                with convert_read_errors(photograph, "name an image file", CallerError):
                    decoded = decode_image(Path(photograph).read_bytes(), record)
            else:
                raise CallerError(f"a photograph is {describe_type(photograph)}; expected a path or a Pillow image")
            if any(map(is_damage, decoded.repairs)):
                raise CallerError(f"{subject} is {', '.join(decoded.repairs)}; leave it out, or save it again")
            if 0 < decoded.bits <= FEW_BITS:
                raise CallerError(f"{subject} uses {decoded.bits} of 16 bits per channel; save it with 8 bits")
            if FEW_SHADES in decoded.repairs:
                seen = f"{subject} uses a small part of 16 bits, of which 8 bits would keep few shades"
                raise CallerError(f"{seen}; save it with 8 bits")
            prepared.append((decoded.pixels - mean) / std)
        if not prepared:
            seen = describe_type(photographs) if single else "an empty list"
            raise CallerError(f"photographs are {seen}; expected a list of paths or Pillow images")
        return np.stack(prepared)
