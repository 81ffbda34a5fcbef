"""Prepare or draw the figures of pages: an estimator's curves, a board's curves, scatter plot and preview picture."""

import io
import warnings
from textwrap import wrap
from typing import NamedTuple

from leaderboard.board_contents import (
    BEATS,
    BELOW,
    Axis,
    BoardContents,
    make_gain_axis,
    make_linear_axis,
    make_pass_axis,
)
from leaderboard.combined_board import CombinedBoard
from roarbench.common.text import capitalize, format_count, format_interval, format_signed, list_some
from roarbench.estimators.catalogue import (
    find_display_name,
    find_estimator_or_placeholder,
    find_search,
    format_id_with_samples,
)
from roarbench.plan.protocols import OWN_NETWORK
from roarbench.report.table import SuiteTable
from roarbench.stats.board_records import RANDOM
from roarbench.stats.intervals import Estimate

_PANELS_SIZE = (3000, 6000)  # maximum size of the picture of curves in pixels
# the preview picture: its size in pixels (Open Graph), the number of its rows, colours, and positions in pixels
_CARD_SIZE, _CARD_ROWS = (1200, 630), 7
_INK, _DIM, _GREY = "#16191d", "#565f6b", "#8b939d"
_COLOURS = {BEATS: "#009e73", BELOW: "#b84900"}
_LEFT, _RIGHT, _TOP, _ROW_HEIGHT = 420, 1140, 300, 44
_REPLACED_CHARACTERS = str.maketrans("×≈−–’", "x~--'")  # characters that the font lacks
# the scatter plot
_PLOT_WIDTH, _PLOT_HEIGHT = 560, 330  # plot area in SVG units
_LETTER_WIDTH, _LINE_HEIGHT = 6.9, 13.0  # width of a letter and height of a line in labels
_GAP = 5.0  # width beside a label; `random`, for example, has wider letters
_PHONE = 1.5  # letters on a phone relative to these, because the plot is half as wide there
_LABEL_SHIFTS = (-1.0, 10.0, -9.0, 17.0, -16.0)  # from a dot down to the middle of its label, the best first


class EstimatorCurves(NamedTuple):
    """The curves of the controls and, last, of an estimator under one protocol; a curve has an estimate per level."""

    title: str  # label of the vertical axis, without a name that is the title of the protocol, and a single level
    curves: list[list[tuple[float, Estimate]]]
    axis: Axis
    signed: bool  # whether values have signs, as gains do
    description: str  # for readers who cannot see the figure
    has_random: bool  # whether the first curve is Random's, which is dashed
    legend: str  # sentence that names the controls' curves; empty without controls


def make_estimator_curves(table: SuiteTable, estimator: str) -> EstimatorCurves | None:
    """Return the curves of an estimator and of the controls; None if a point of the estimator is missing."""
    board, gains = table.board, table.board.protocol.random_is_zero
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
    controls = sorted(curves, key=lambda name: name != RANDOM)
    drawn = [*(curves[name] for name in controls), own]
    ends = [end for curve in drawn for _, at in curve for end in at if end is not None]
    form = format_signed if gains else "{:.1f}".format
    values = ", ".join(f"t = {t:g}: {format_interval(at, form)}" for t, at in own[1:])
    others = list_some([find_display_name(name).full_name for name in controls if name != RANDOM])
    legend = ", ".join(filter(None, ("Random (dashed)" if RANDOM in controls else "", others)))
    alone = f"; measured only at t = {board.levels[0]:g}" if len(board.levels) == 1 else ""
    is_named = board.protocol.gain_name.lower() == board.protocol.title.lower()  # the caption begins with the title
    return EstimatorCurves(
        f"{'points' if is_named else board.protocol.curve_axis}{'' if gains else ', %'}{alone}",
        drawn,
        make_linear_axis(ends if gains else [*ends, 100.0]),
        gains,
        f"{find_display_name(estimator).name} by fraction removed: {values}. Grey: the controls.",
        RANDOM in controls,
        f"Grey: {legend}." if legend else "",
    )


def draw_curve_panels_as_webp(table: SuiteTable) -> bytes:
    """Draw the curves of all rows as WebP, with a panel per base estimator."""
    from PIL import Image

    from roarbench.report import curve_panels, suite_charts  # imported here, because matplotlib delays the app's start

    file = io.BytesIO()
    with curve_panels.use_own_settings(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the font draws a box in place of a character that it lacks
        curve_panels.make_figure(suite_charts.make_chart(table)).savefig(file, format="png", dpi=100)
    picture, encoded = Image.open(file).convert("RGB"), io.BytesIO()
    picture.thumbnail(_PANELS_SIZE)  # the long name of a submission may make the figure larger
    picture.save(encoded, "WEBP", quality=60)
    return encoded.getvalue()


def draw_preview_card(board: BoardContents, heading: str) -> bytes:
    """Draw the preview picture of a board as PNG: the heading, and the first rows as dots with intervals."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", _CARD_SIZE, "white")
    draw = ImageDraw.Draw(picture)

    def write(position: tuple[int, int], text: str, colour: str, size: int) -> None:
        draw.text(position, text.translate(_REPLACED_CHARACTERS), colour, ImageFont.load_default(size))

    def to_x(value: float) -> int:
        return round(_LEFT + (_RIGHT - _LEFT) * board.axis.to_percent(value) / 100)

    write((60, 40), "roarbench", _DIM, 34)
    for number, line in enumerate(wrap(heading, 46)[:3]):
        write((60, 94 + 58 * number), line, _INK, 48)
    draw.line((to_x(0), _TOP, to_x(0), _TOP + _ROW_HEIGHT * _CARD_ROWS), _GREY, 2)
    for number, row in enumerate(board.rows[:_CARD_ROWS]):
        y, colour = _TOP + _ROW_HEIGHT * number + _ROW_HEIGHT // 2, _COLOURS.get(row.colour_class, _GREY)
        write((60, y - 14), row.name[:26], _DIM if row.control else _INK, 24)
        value, low, high = row.value
        if low is not None and high is not None:
            draw.line((to_x(low), y, to_x(high), y), colour, 8)
        if value is not None:
            draw.regular_polygon((to_x(value), y, 10), 4 if row.control else 30, 45 * row.control, colour)
    file = io.BytesIO()
    picture.quantize(32).save(file, "PNG", optimize=True)
    return file.getvalue()


class Dot(NamedTuple):
    """A dot of a plot: a row with two numbers, and its label's left and lower end in the plot's units."""

    id: str  # the label, which is shorter than the name
    control: bool
    x: Estimate  # ROAR gain, or number of passes
    y: Estimate  # own-network gain
    label: tuple[float, float] | None = None  # None if there is no free place
    phone_label: tuple[float, float] | None = None  # the same for the larger letters on a phone


class Scatter(NamedTuple):
    """The scatter plot: the label of the horizontal axis, the dots, both scales, and a description in words."""

    x_label: str
    dots: list[Dot]
    x_axis: Axis  # of ROAR gains, or of passes
    y_axis: Axis
    description: str
    removal_text: str  # sentence on the levels and the order of removal of both gains
    missing: str  # sentence on the number of rows that lack one of the gains; empty if all rows have both
    frontier: tuple[tuple[float, float], ...] = ()  # passes and own-network gain of the blind searches, by passes

    @property
    def frontier_points(self) -> str:
        """Return the frontier as points of an SVG line."""
        return " ".join(f"{self.to_x(passes)},{self.to_y(gain)}" for passes, gain in self.frontier)

    def to_x(self, value: float) -> float:
        """Return the horizontal position of a ROAR gain, or of a number of passes."""
        return round(_PLOT_WIDTH * self.x_axis.to_percent(value) / 100, 1)

    def to_y(self, value: float) -> float:
        """Return the vertical position of an own-network gain."""
        return round(_PLOT_HEIGHT * (1 - self.y_axis.to_percent(value) / 100), 1)


def make_scatter(board: CombinedBoard) -> Scatter | None:
    """Build the plot of a board; None if no row has both gains."""
    retrained, (roar, own) = board.boards[0], (each.started_rows for each in board.boards[:2])
    dots = list[Dot]()
    for row in board.rows:
        one, other = roar.get(row.id), own.get(row.id)
        if one and other and None not in (one.value.value, other.value.value):
            dots.append(Dot(row.id, row.control, one.value, other.value))
    if not dots:
        return None
    values = "; ".join(f"{dot.id} {format_interval(dot.x)} and {format_interval(dot.y)}" for dot in dots)
    missing = len(board.rows) - len(dots)
    plot = Scatter(
        capitalize(retrained.gain_with_levels),
        dots,
        make_gain_axis(dot.x for dot in dots),
        make_gain_axis(dot.y for dot in dots),
        f"{capitalize(retrained.gain_with_levels)} and own-network gain in points: {values}.",
        f"{'; '.join(f'{capitalize(each.gain)}: {each.removal_text}' for each in board.boards[:2])}.",
        f"{format_count(missing, 'row')} with only one of the two gains {'is' if missing == 1 else 'are'} not drawn."
        * (missing > 0),
    )
    return _add_labels(plot)


def make_cost_scatter(board: CombinedBoard) -> Scatter | None:
    """Build the plot of own-network gain against passes; None if fewer than two rows have both."""
    own = board.boards[1]
    rows = [row for row in own.rows if row.passes and row.value.value is not None]
    if len(rows) < 2:
        return None
    dots = [Dot(format_id_with_samples(row.id), row.control, Estimate(row.passes), row.value) for row in rows]
    values = "; ".join(f"{dot.id} {dot.x.value:g} and {format_interval(dot.y)}" for dot in dots)
    searches = sorted(
        (dot.x.value or 0.0, dot.y.value or 0.0)
        for dot in dots
        if (search := find_search(dot.id)) and search.order is OWN_NETWORK.order
    )
    costs = [dot.x.value for dot in dots if dot.x.value is not None]
    plot = Scatter(
        "passes for an image",
        dots,
        make_pass_axis(costs),
        make_gain_axis(dot.y for dot in dots),
        f"Passes for an image, and own-network gain in points: {values}.",
        f"{capitalize(own.gain)}: {own.removal_text}.",
        "Rows with an unknown number of passes are not drawn." * any(row.passes is None for row in board.rows),
        tuple(searches),
    )
    return _add_labels(plot)


def _add_labels(plot: Scatter) -> Scatter:
    """Place the dots' labels, for wide and for narrow screens."""
    places, phone_places = (_place_labels(plot, size) for size in (1.0, _PHONE))
    ordered = sorted(plot.dots, key=_get_own_gain, reverse=True)
    return plot._replace(dots=[dot._replace(label=places[dot.id], phone_label=phone_places[dot.id]) for dot in ordered])


def _get_own_gain(dot: Dot) -> float:
    return dot.y.value or 0.0


def _place_labels(plot: Scatter, size: float) -> dict[str, tuple[float, float] | None]:
    """Place each label, with letters of this size, beside its dot where it covers no dot and no other label."""
    places = {dot.id: (plot.to_x(dot.x.value or 0.0), plot.to_y(dot.y.value or 0.0)) for dot in plot.dots}
    taken = [(x - 5, y, 10.0) for x, y in places.values()]  # left end, middle and width
    labels = dict[str, tuple[float, float] | None]()
    for dot in sorted(plot.dots, key=_get_own_gain, reverse=True):
        (x, y), width = places[dot.id], size * (_LETTER_WIDTH * len(dot.id) + _GAP)
        labels[dot.id] = None
        for left, middle in ((left, y + size * shift) for shift in _LABEL_SHIFTS for left in (x + 8, x - 8 - width)):
            beside = (at for start, at, wide in taken if left < start + wide and start < left + width)
            inside = 0 <= left <= _PLOT_WIDTH - width and middle <= _PLOT_HEIGHT
            if inside and all(abs(at - middle) >= size * _LINE_HEIGHT * 0.8 for at in beside):
                taken.append((left, middle, width))
                labels[dot.id] = round(left, 1), round(middle + 4 * size, 1)
                break
    return labels
