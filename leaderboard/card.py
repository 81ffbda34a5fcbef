"""The picture that stands beside a link to a board: its headline, and its first rows as dots."""

import io
from textwrap import wrap

from PIL import Image, ImageDraw, ImageFont

from leaderboard.records import BELOW, CONTROL, BoardRecord

_SIZE = (1200, 630)  # as Open Graph asks for
_ROWS = 7
_INK, _DIM, _GREY, _GOOD, _BAD = "#16191d", "#565f6b", "#8b939d", "#009e73", "#b84900"
_LEFT, _RIGHT, _TOP, _STEP = 420, 1140, 300, 44  # of the figure, in pixels


def card(board: BoardRecord, heading: str) -> bytes:
    """Return the picture as PNG."""
    picture = Image.new("RGB", _SIZE, "white")
    draw = ImageDraw.Draw(picture)
    draw.text((60, 40), "roarbench", _DIM, _font(34))
    for at, line in enumerate(wrap(heading, 46)[:3]):
        draw.text((60, 94 + 58 * at), _plain(line), _INK, _font(48))
    at_zero = _across(board, 0.0)
    draw.line((at_zero, _TOP, at_zero, _TOP + _STEP * _ROWS), _GREY, 2)
    for at, row in enumerate([row for row in board.rows if row.value.value is not None][:_ROWS]):
        y = _TOP + _STEP * at + _STEP // 2
        colour = _GREY if row.control or row.kind == "open" else _BAD if row.kind == BELOW else _GOOD
        draw.text((60, y - 14), _plain(row.name)[:26], _DIM if row.kind == CONTROL else _INK, _font(24))
        value, low, high = (None if end is None else _across(board, end) for end in row.value)
        if low is not None and high is not None:
            draw.line((low, y, high, y), colour, 8)
        assert value is not None, "rows without a value are left out"
        draw.ellipse((value - 10, y - 10, value + 10, y + 10), colour)
    file = io.BytesIO()
    picture.quantize(32).save(file, "PNG", optimize=True)
    return file.getvalue()


def _across(board: BoardRecord, value: float) -> int:
    return round(_LEFT + (_RIGHT - _LEFT) * board.axis.at(value) / 100)


def _plain(text: str) -> str:
    """Return a text without the letters that the font lacks."""
    return text.translate(str.maketrans("×≈−–’", "x~--'"))


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
