"""Draw a contact sheet: some images of each class, as the suite will decode them, under the class's name.

A wrong class, a mask, a wrong crop and inverted or black pixels are seen at once.
"""

import re
import warnings
from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from roarbench.common.enums import Split
from roarbench.common.errors import CallerError
from roarbench.common.files import convert_write_errors, is_picture_of, write_atomically
from roarbench.common.text import fit_on_one_line
from roarbench.datasets.class_report import count_by_class
from roarbench.datasets.decode_image import decode_image
from roarbench.datasets.undecoded_splits import UserImages, sample_images

_MARK = "roarbench new-suite"  # `Software` in the sheets' metadata; files without it are never overwritten
_MOST_CLASSES, _FIRST, _LAST = 48, 24, 8  # of more classes, the first, the last and some between are drawn
_MARGIN, _GAP, _SPLIT_GAP = 16, 4, 14  # pixels around the sheet, between images, and between training and test images
_FONT_SIZE, _HEADING_SIZE = 14, 16
_WHITE, _INK, _QUIET = (255, 255, 255), (20, 20, 20), (105, 105, 105)
_NO_LETTERS = re.compile("last ?resort|blank", re.IGNORECASE)  # fonts with the same sign for every letter
Font = ImageFont.FreeTypeFont


class _Layout(NamedTuple):
    columns: int  # blocks beside each other
    per_split: int  # images of each split in a block
    side: int  # pixels of a drawn image


def choose_shown(classes: int) -> list[int]:
    """Return the numbers of the classes that are drawn: all, or the first, the last and some between."""
    if classes <= _MOST_CLASSES:
        return [*range(classes)]
    between = np.linspace(_FIRST, classes - _LAST - 1, _MOST_CLASSES - _FIRST - _LAST, dtype=int).tolist()
    return [*range(_FIRST), *between, *range(classes - _LAST, classes)]


def choose_layout(classes: int) -> _Layout:
    """Return the layout for a number of classes: one column of ten images each, or three columns of four."""
    return _Layout(1, 5, 88) if classes <= 12 else _Layout(3, 2, 76)


def write_contact_sheet(images: UserImages, path: Path) -> None:
    """Draw some images of each class, or of 48 classes, into a PNG file of at most about 1100 x 1900 pixels."""
    if path.exists() and not is_picture_of(path, _MARK):
        raise CallerError(f"{path} already exists and is no contact sheet of new-suite; move or rename it")
    mark = PngImagePlugin.PngInfo()
    mark.add_text("Software", _MARK)
    sheet = draw_contact_sheet(images)
    with convert_write_errors(path):
        write_atomically(path, lambda temporary: sheet.save(temporary, "PNG", pnginfo=mark))


def draw_contact_sheet(images: UserImages) -> Image.Image:
    """Draw the sheet; training images stand on the left of each block, test images on the right."""
    shown = choose_shown(len(images.classes))
    layout = choose_layout(len(shown))
    drawn = {split: _draw_samples(images, split, shown, layout) for split in images.record.decoded_splits}
    counts = count_by_class(images)
    strip = layout.per_split * (layout.side + _GAP) - _GAP  # width of a block's training images
    width, height = 2 * strip + _SPLIT_GAP, layout.side + _FONT_SIZE + 12  # of a block with its caption
    record, total = images.record, len(images.classes)
    some = f", of which {len(shown)} are shown" if len(shown) < total else ""
    sides = "test images" if record.test_only else "training images on the left, test images on the right"
    colour = "grey" if record.channels == 1 else "colour"
    lines = [
        fit_on_one_line(f"{record.name}: {total:,} classes{some}"),
        f"{sides}; as networks see them: {record.size} x {record.size} pixels, {colour}",
    ]
    top = _MARGIN + len(lines) * (_HEADING_SIZE + 6) + 8
    rows = -(-len(shown) // layout.columns)
    size = (layout.columns * (width + _MARGIN) + _MARGIN, top + rows * (height + _MARGIN))
    sheet = Image.new("RGB", size, _WHITE)
    draw = ImageDraw.Draw(sheet)
    for number, line in enumerate(lines):
        font = _choose_font(line, _HEADING_SIZE if number == 0 else _FONT_SIZE)
        text = _fit_pixels(line, font, size[0] - 2 * _MARGIN)
        draw.text((_MARGIN, _MARGIN + number * (_HEADING_SIZE + 6)), text, _QUIET if number else _INK, font)
    for place, number in enumerate(shown):
        left = _MARGIN + place // rows * (width + _MARGIN)
        y = top + place % rows * (height + _MARGIN)
        numbers = " + ".join(f"{int(counts[split][number]):,}" for split in drawn)
        font = _choose_font(numbers, _FONT_SIZE)
        space = width - font.getlength(numbers)
        draw.text((left + space, y), numbers, _QUIET, font)
        text = _write_name(images.classes[number], number)
        font = _choose_font(text, _FONT_SIZE)
        draw.text((left, y), _fit_pixels(text, font, space - 12), _INK, font)
        for split, by_class in drawn.items():
            start = left + (strip + _SPLIT_GAP if split is Split.TEST and len(drawn) > 1 else 0)
            for turn, image in enumerate(by_class[number]):
                corner = (start + turn * (layout.side + _GAP), y + _FONT_SIZE + 8)
                sheet.paste(image, corner)
                draw.rectangle((corner[0] - 1, corner[1] - 1, *(c + layout.side for c in corner)), outline=(200,) * 3)
    return sheet


def _draw_samples(images: UserImages, split: Split, shown: list[int], layout: _Layout) -> dict[int, list[Image.Image]]:
    """Decode and scale some images of each shown class, by class number.

    Enlarged pixels stay squares, so that the coarse image is seen as it is.
    """
    labels, side = images.splits[split].labels, layout.side
    positions = sample_images(labels, layout.per_split, not images.has_large_files)
    positions = positions[np.isin(labels[positions], shown)]
    by_class: dict[int, list[Image.Image]] = {number: [] for number in shown}
    kind = Image.Resampling.NEAREST if side >= images.record.size else Image.Resampling.LANCZOS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of odd images, which are reported when all are decoded
        for position, content in zip(positions, images.read(split, positions), strict=True):
            pixels = decode_image(content, images.record).pixels
            image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).convert("RGB")
            by_class[int(labels[position])].append(image.resize((side, side), kind))
    return by_class


def _write_name(name: str, number: int) -> str:
    """Return a class's name, or its number if no font of this machine has the letters of the name."""
    text = fit_on_one_line(name)
    drawable = bool(text) and _has_letters(_choose_font_path(text), text)
    return text if drawable else f"class {number + 1} (no font here has the letters of its name)"


def _fit_pixels(text: str, font: Font, width: float) -> str:
    """Cut a text to a width in pixels; a cut text ends in an ellipsis."""
    if font.getlength(text) <= width:
        return text
    # the longest start that fits
    length = bisect_right(range(len(text)), width, key=lambda length: font.getlength(f"{text[: length + 1]}…"))
    return f"{text[:length].rstrip()}…"


def _choose_font(text: str, size: int) -> Font:
    return ImageFont.truetype(_choose_font_path(text), size)


@cache
def _choose_font_path(text: str) -> str:
    """Return a font that has all letters of a text: DejaVu Sans, which comes with matplotlib, or an installed font."""
    import matplotlib  # the import takes a moment

    usual = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
    if _has_letters(usual, text):
        return usual
    from matplotlib.font_manager import fontManager

    fonts = [font for font in fontManager.ttflist if font.style == "normal" and font.weight == 400]
    paths = dict.fromkeys(font.fname for font in fonts if not _NO_LETTERS.search(font.name))
    return next((path for path in paths if _has_letters(path, text)), usual)


def _has_letters(path: str, text: str) -> bool:
    return {ord(letter) for letter in text if not letter.isspace()} <= _list_letters(path)


@cache
def _list_letters(path: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(FT2Font(path).get_charmap())
    except (RuntimeError, OSError):  # a font that matplotlib cannot read
        return frozenset()
