"""Resizes and crops a photograph as torchvision and timm do before a network is tested. Nothing here imports torch."""

from PIL import Image

from roarbench.errors import CallerError

INTERPOLATIONS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")  # those of every Pillow


def resize_to_square(image: Image.Image, resize: int, size: int, interpolation: str) -> Image.Image:
    """Scale the short side of an image to `resize` pixels, then cut the centred square of `size` pixels out.

    As torchvision's `Resize` and `CenterCrop` do, and timm with them: the long side is rounded down, odd rests to an
    even number. Programs that round to the nearest see one column more or less of some photographs.
    """
    short = min(image.size)
    width, height = (int(resize * side / short) for side in image.size)
    resized = image.resize((width, height), Image.Resampling[interpolation.upper()])
    left, top = round((width - size) / 2), round((height - size) / 2)
    return resized.crop((left, top, left + size, top + size))


def check_resizing(resize: int, size: int, interpolation: str) -> None:
    """Refuse what `resize_to_square` cannot do; CallerError."""
    if resize < size:
        raise CallerError(f"resize is {resize} and the square has {size} pixels; write resize = {size} or more")
    if interpolation not in INTERPOLATIONS:
        raise CallerError(f"interpolation is '{interpolation}', expected {', '.join(INTERPOLATIONS)}")
