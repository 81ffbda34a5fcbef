"""The picture that stands beside a link to a board: its headline, and its first rows as dots."""

import io
from textwrap import wrap

from PIL import Image, ImageDraw, ImageFont

from leaderboard.records import BEATS, BELOW, BoardRecord

_SIZE, _ROWS = (1200, 630), 7  # as Open Graph asks for
_INK, _DIM, _GREY = "#16191d", "#565f6b", "#8b939d"
_COLOURS = {BEATS: "#009e73", BELOW: "#b84900"}
_LEFT, _RIGHT, _TOP, _STEP = 420, 1140, 300, 44  # of the figure, in pixels
_LACKING = str.maketrans("×≈−–’", "x~--'")  # letters of the font


def card(board: BoardRecord, heading: str) -> bytes:
    """Return the picture as PNG."""
    picture = Image.new("RGB", _SIZE, "white")
    draw = ImageDraw.Draw(picture)

    def write(place: tuple[int, int], text: str, colour: str, size: int) -> None:
        draw.text(place, text.translate(_LACKING), colour, ImageFont.load_default(size))

    def across(value: float) -> int:
        return round(_LEFT + (_RIGHT - _LEFT) * board.axis.at(value) / 100)

    write((60, 40), "roarbench", _DIM, 34)
    for at, line in enumerate(wrap(heading, 46)[:3]):
        write((60, 94 + 58 * at), line, _INK, 48)
    draw.line((across(0), _TOP, across(0), _TOP + _STEP * _ROWS), _GREY, 2)
    for at, row in enumerate(board.rows[:_ROWS]):
        y, colour = _TOP + _STEP * at + _STEP // 2, _COLOURS.get(row.kind, _GREY)
        write((60, y - 14), row.name[:26], _DIM if row.control else _INK, 24)
        value, low, high = row.value
        if low is not None and high is not None:
            draw.line((across(low), y, across(high), y), colour, 8)
        if value is not None:
            draw.regular_polygon((across(value), y, 10), 4 if row.control else 30, 45 * row.control, colour)
    file = io.BytesIO()
    picture.quantize(32).save(file, "PNG", optimize=True)
    return file.getvalue()
