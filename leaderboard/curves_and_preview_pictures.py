"""Draw the curves of an estimator, the curves of a board, and a board's preview picture."""

import io
import warnings
from textwrap import wrap
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from leaderboard.board_contents import BEATS, BELOW, Axis, BoardContents, make_linear_axis
from roarbench.common.text import format_interval, format_signed
from roarbench.estimators.catalogue import find_display_name, find_estimator_or_placeholder
from roarbench.report.table import SuiteTable
from roarbench.stats.bootstrap_intervals import Estimate

_SIZE, _ROWS = (1200, 630), 7  # size of an Open Graph picture in pixels; maximum number of rows on it
_PANELS = (3000, 6000)  # maximum size of the picture of curves in pixels
_INK, _DIM, _GREY = "#16191d", "#565f6b", "#8b939d"
_COLOURS = {BEATS: "#009e73", BELOW: "#b84900"}
_LEFT, _RIGHT, _TOP, _STEP = 420, 1140, 300, 44  # positions in pixels
_LACKING = str.maketrans("×≈−–’", "x~--'")  # replacements for characters that the font lacks


class EstimatorCurves(NamedTuple):
    """The curves of the controls and, last, of an estimator under one protocol; a curve has an estimate per level."""

    title: str  # name of the vertical axis, and the level if only one was measured
    curves: list[list[tuple[float, Estimate]]]
    axis: Axis
    signed: bool
    words: str  # description of the figure for readers who cannot see it


def make_estimator_curves(table: SuiteTable, estimator: str) -> EstimatorCurves | None:
    """Return the curves of an estimator and of the controls; None if a point of the estimator is missing."""
    board, gains = table.board, table.board.protocol.has_gain_at_each_level
    rows = [
        row
        for row in board.rows
        if row.estimator == estimator or find_estimator_or_placeholder(row.estimator).is_control_to_beat
    ]
    all_curves = {
        row.estimator: [(t, at.in_points) for t, at in board.make_accuracy_or_gain_curve(row).items()] for row in rows
    }
    curves = {name: curve for name, curve in all_curves.items() if all(at.value is not None for _, at in curve)}
    if estimator not in curves:
        return None
    own = curves.pop(estimator)
    drawn = [*curves.values(), own]
    ends = [end for curve in drawn for _, at in curve for end in at if end is not None]
    form = format_signed if gains else "{:.1f}".format
    values = ", ".join(f"t = {t:g}: {format_interval(at, form)}" for t, at in own[1:])
    alone = f"; measured only at t = {board.levels[0]:g}" if len(board.levels) == 1 else ""
    return EstimatorCurves(
        f"{board.protocol.curve_axis}{'' if gains else ', %'}{alone}",
        drawn,
        make_linear_axis(ends if gains else [*ends, 100.0]),
        gains,
        f"{find_display_name(estimator).name} by fraction removed: {values}. Grey: the controls.",
    )


def draw_curve_panels(table: SuiteTable) -> bytes:
    """Draw the curves of all rows as WebP, one panel per base estimator, like figure 4 of the ROAR paper."""
    from roarbench.report import curve_panels, suite_charts  # imported here, because matplotlib delays the app's start

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the font draws a box in place of a character that it lacks
        curve_panels.make_figure(suite_charts.make_chart(table)).savefig(file, format="png", dpi=100)
    picture, encoded = Image.open(file).convert("RGB"), io.BytesIO()
    picture.thumbnail(_PANELS)  # the long name of a submission may make the figure larger
    picture.save(encoded, "WEBP", quality=60)
    return encoded.getvalue()


def draw_preview_card(board: BoardContents, heading: str) -> bytes:
    """Draw the preview picture of a board as PNG: the heading, and the first rows as dots with intervals."""
    picture = Image.new("RGB", _SIZE, "white")
    draw = ImageDraw.Draw(picture)

    def write(position: tuple[int, int], text: str, colour: str, size: int) -> None:
        draw.text(position, text.translate(_LACKING), colour, ImageFont.load_default(size))

    def across(value: float) -> int:
        return round(_LEFT + (_RIGHT - _LEFT) * board.axis.to_percent(value) / 100)

    write((60, 40), "roarbench", _DIM, 34)
    for at, line in enumerate(wrap(heading, 46)[:3]):
        write((60, 94 + 58 * at), line, _INK, 48)
    draw.line((across(0), _TOP, across(0), _TOP + _STEP * _ROWS), _GREY, 2)
    for at, row in enumerate(board.rows[:_ROWS]):
        y, colour = _TOP + _STEP * at + _STEP // 2, _COLOURS.get(row.colour_class, _GREY)
        write((60, y - 14), row.name[:26], _DIM if row.control else _INK, 24)
        value, low, high = row.value
        if low is not None and high is not None:
            draw.line((across(low), y, across(high), y), colour, 8)
        if value is not None:
            draw.regular_polygon((across(value), y, 10), 4 if row.control else 30, 45 * row.control, colour)
    file = io.BytesIO()
    picture.quantize(32).save(file, "PNG", optimize=True)
    return file.getvalue()
