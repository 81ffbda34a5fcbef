"""Prepare or draw the figures of pages: an estimator's curves, a board's curves and its scatter plot."""

import io
import warnings
from typing import NamedTuple

from leaderboard.board_contents import Axis, make_gain_axis, make_linear_axis, make_pass_axis
from leaderboard.build_board_contents import CombinedBoard
from roarbench.common.text import capitalize, format_interval, format_signed, list_some
from roarbench.estimators.catalogue import (
    find_display_name,
    find_estimator_or_placeholder,
    find_search,
    format_id_with_samples,
    is_search_for_another_order,
)
from roarbench.plan.protocols import OWN_NETWORK
from roarbench.report.table import SuiteTable
from roarbench.stats.board_records import RANDOM
from roarbench.stats.intervals import Estimate

_PANELS_SIZE = (3000, 6000)  # maximum size of the picture of curves in pixels
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
    has_random: bool  # whether the first curve is Random's, which is dashed (curves.svg)
    legend: str  # sentence that names the controls' curves; empty without controls


def make_estimator_curves(table: SuiteTable, estimator: str) -> EstimatorCurves | None:
    """Return the curves of an estimator and of the controls; None if a point of the estimator is missing."""
    board, gains = table.board, table.board.protocol.random_is_zero
    curves = dict[str, list[tuple[float, Estimate]]]()
    for row in board.rows:
        if row.estimator == estimator or find_estimator_or_placeholder(row.estimator).is_control_to_beat:
            curve = [(t, at.in_points) for t, at in board.make_accuracy_or_gain_curve(row).items()]
            if all(at.value is not None for _, at in curve):
                curves[row.estimator] = curve
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


class Dot(NamedTuple):
    """A dot of the plot: a row with two numbers, and its label's left and lower end in the plot's units."""

    id: str  # the label, which is shorter than the name
    control: bool
    passes: float
    gain: Estimate  # own-network gain
    label: tuple[float, float] | None = None  # None if there is no free place
    phone_label: tuple[float, float] | None = None  # the same for the larger letters on a phone


class Scatter(NamedTuple):
    """The plot of own-network gain against passes: the dots, both scales, and a description in words."""

    dots: list[Dot]
    x_axis: Axis  # of passes
    y_axis: Axis  # of gains
    description: str
    removal_text: str  # sentence on the levels and the order of removal
    missing: str  # sentence on rows with an unknown number of passes; empty without any
    frontier: tuple[tuple[float, float], ...] = ()  # passes and own-network gain of the blind searches, by passes

    def to_x(self, value: float) -> float:
        """Return the horizontal position of a number of passes."""
        return round(_PLOT_WIDTH * self.x_axis.to_percent(value) / 100, 1)

    def to_y(self, value: float) -> float:
        """Return the vertical position of an own-network gain."""
        return round(_PLOT_HEIGHT * (1 - self.y_axis.to_percent(value) / 100), 1)


def make_cost_scatter(board: CombinedBoard) -> Scatter | None:
    """Build the plot of own-network gain against passes; None if fewer than two rows have both."""
    own = board.boards[1]
    known = (row for row in own.rows if row.passes and row.value.value is not None)
    rows = [row for row in known if not is_search_for_another_order(row.id, OWN_NETWORK.order)]
    if len(rows) < 2:
        return None
    dots = [Dot(format_id_with_samples(row.id), row.control, row.passes or 0.0, row.value) for row in rows]
    values = "; ".join(f"{dot.id} {dot.passes:g} and {format_interval(dot.gain)}" for dot in dots)
    unknown = any(row.passes is None and row.value.value is not None for row in own.rows)
    plot = Scatter(
        dots,
        make_pass_axis([dot.passes for dot in dots]),
        make_gain_axis(dot.gain for dot in dots),
        f"Passes for an image, and own-network gain in points: {values}.",
        f"{capitalize(own.gain)}: {own.removal_text}.",
        "Rows with an unknown number of passes are not drawn." * unknown,
        tuple(sorted((row.passes or 0.0, row.value.value or 0.0) for row in rows if find_search(row.id))),
    )
    places, phone_places = (_place_labels(plot, size) for size in (1.0, _PHONE))
    ordered = sorted(plot.dots, key=_get_own_gain, reverse=True)
    return plot._replace(dots=[dot._replace(label=places[dot.id], phone_label=phone_places[dot.id]) for dot in ordered])


def _get_own_gain(dot: Dot) -> float:
    return dot.gain.value or 0.0


def _place_labels(plot: Scatter, size: float) -> dict[str, tuple[float, float] | None]:
    """Place each label, with letters of this size, beside its dot where it covers no dot and no other label."""
    places = {dot.id: (plot.to_x(dot.passes), plot.to_y(_get_own_gain(dot))) for dot in plot.dots}
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
