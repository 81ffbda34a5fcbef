"""The fixed crop of every image; nothing is cropped or resized after it at test time."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def centre_square(image: Image.Image, size: int, crop: float = 1.0) -> Image.Image:
    """Cut the centred square whose side is `crop` times an image's short side, at `size` x `size`.

    With `crop = 224 / 256` it is the usual test-time crop of ImageNet: short side 256, centre 224. Resized by Pillow's
    bicubic filter, which widens its support when it shrinks an image and so does not alias. An image that has the
    size already comes back unchanged.
    """
    width, height = image.size
    side = round(min(width, height) * crop)
    left, top = (width - side) // 2, (height - side) // 2
    return image.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))


def to_pixels(image: Image.Image, channels: int, size: int, crop: float = 1.0) -> NDArray[np.uint8]:
    """Return the centred square of an image as uint8 (channels, size, size): RGB for three channels, grey for one."""
    mode = "L" if channels == 1 else "RGB"
    plain = image if image.mode == mode else image.convert(mode)  # converting to the same mode copies
    pixels = np.asarray(centre_square(plain, size, crop))
    return pixels.reshape(size, size, channels).transpose(2, 0, 1)
