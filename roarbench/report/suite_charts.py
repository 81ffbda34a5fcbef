"""Draw a suite's rows as charts: curves of accuracy, and bars of gains."""

from collections.abc import Iterable, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from roarbench.common.enums import Order
from roarbench.common.errors import CallerError
from roarbench.common.text import MISSING
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.protocols import KAR, ROAR
from roarbench.report.curve_panels import (
    COLOURS,
    FONT_POINTS,
    INK,
    LINE_INCHES,
    TITLE_POINTS,
    Chart,
    PanelCurve,
    XLabel,
    use_own_settings,
    wrap_text,
)
from roarbench.report.paper_claims import read_published_curves
from roarbench.report.table import SuiteTable
from roarbench.report.table_notes import describe_missing_runs
from roarbench.report.table_record import Bar
from roarbench.stats.board_records import ONE_TRAINING, Board, IntervalScope
from roarbench.stats.intervals import CONFIDENCE, Estimate
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict

# sizes of a figure of bars, in inches
_ROW_HEIGHT, _MARGINS, _TITLE_HEIGHT = 0.26, 0.75, 0.3
_FIRST_PANEL_WIDTH, _FURTHER_PANEL_WIDTH = 6.4, 2.4
_ABOVE, _BELOW, _OPEN = COLOURS[4], COLOURS[5], "#999999"  # colours of bars
_SEARCH = "white"  # with an edge; estimators have to exceed these bars
_BAR_COLOURS = {
    Verdict.BETTER: _ABOVE,
    OwnNetworkVerdict.EXPLAINS: _ABOVE,
    Verdict.WORSE: _BELOW,
    OwnNetworkVerdict.OPPOSES: _BELOW,
    OwnNetworkVerdict.CONTROL: _SEARCH,
}
_LEGEND = {"better, or explains": _ABOVE, "worse, or opposes": _BELOW, "neither, above 0, or as a search": _OPEN}


def make_chart(table: SuiteTable, published: str = "") -> Chart:
    """Return the chart of accuracy or gain against t; for LeRF protocols such as KAR, against the fraction kept.

    `published` names a data set of Hooker et al. 2019, whose published curves are added for the rows shown.

    Raises:
        UnknownName: Hooker et al. did not use that data set.
        CallerError: Hooker et al. did not measure the quantity that this table shows.
    """
    board = table.board
    # all rows share the point at t = 0, so a row is drawn only if it has another point
    started = [row for row in board.rows if any(point.value is not None for point in row.accuracies)]
    bands = f"Bands: {CONFIDENCE:.0%} intervals over {board.covers}."
    if board.covers is IntervalScope.NOTHING:
        bands = f"{ONE_TRAINING}: no bands."
    return Chart(
        title=f"{table.suite_results.title}: {board.protocol.title}",
        caption=" ".join(filter(None, (f"{table.caption}.", bands, describe_missing_runs(table, signs=False)))),
        x_label=XLabel.KEPT if board.protocol.order is Order.LERF else XLabel.REMOVED,
        curves=tuple(make_panel_curve(row.estimator, board.make_accuracy_or_gain_curve(row)) for row in started),
        published=_make_published_curves(published, board) if published else (),
        above_masks=_make_curves_above_masks(table),
        y_label=board.protocol.curve_axis,
    )


def _make_curves_above_masks(table: SuiteTable) -> tuple[PanelCurve, ...]:
    """Return the curves of accuracy minus accuracy on masks alone; empty for a single level."""
    if len(table.mask_only_levels) < 2:
        return ()
    shown = [row.estimator for row in table.board.rows if row.estimator in table.above_masks]
    return tuple(make_panel_curve(name, table.above_masks[name]) for name in shown)


def _make_published_curves(dataset: str, board: Board) -> tuple[PanelCurve, ...]:
    if board.protocol not in (ROAR, KAR):
        shown = f"this plot shows {board.protocol.curve_axis} under {board.protocol.name}"
        raise CallerError(f"{shown}, but the paper's curves are accuracies under roar or kar; leave --published out")
    rows = {row.estimator for row in board.rows}
    curves = read_published_curves(dataset, board.protocol.order)
    return tuple(
        make_panel_curve(name, {t: Estimate(value) for t, value in curve.items()})
        for name, curve in curves.items()
        if name in rows
    )


def make_panel_curve(name: str, points: Mapping[float, Estimate]) -> PanelCurve:
    """Return the curve of an estimator through its points, given by level."""
    estimator = find_estimator(name)
    return PanelCurve(name, estimator.base, estimator.control, points)


@use_own_settings()
def plot_gains(panels: Mapping[str, Mapping[str, Bar | None]], title: str = "", caption: Iterable[str] = ()) -> Figure:
    """Draw one panel per label, with one bar per name from top to bottom, a legend and the lines of a caption.

    The verdict of the table colours a bar: an interval that excludes 0 is not adjusted for the other rows. None stands
    for a row that was not run, an estimate without a value for a missing result.

    Raises:
        CallerError: All values are missing.
    """
    drawn = [bar for bars in panels.values() for bar in bars.values() if bar]
    if all(bar.gain.value is None for bar in drawn):
        raise CallerError("nothing to draw: no row has a gain; do some of the suite's runs first")
    rows = max(map(len, panels.values()))
    width = _FIRST_PANEL_WIDTH + _FURTHER_PANEL_WIDTH * (len(panels) - 1)
    notes = [part for line in caption for part in wrap_text(line, width, FONT_POINTS)]
    height = _MARGINS + _ROW_HEIGHT * rows + _TITLE_HEIGHT * len(title.splitlines()) + LINE_INCHES * len(notes)
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=TITLE_POINTS, color=INK, wrap=True, parse_math=False)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, (label, bars) in zip(axes, panels.items(), strict=True):
        draw_gain_bars(panel, bars, label)
    axes[0].set_ylim(rows - 0.4, -0.6)  # first row on top, with space above the axis
    patches = [Patch(color=colour, label=meaning) for meaning, colour in _LEGEND.items()]
    if any(bar.verdict is OwnNetworkVerdict.CONTROL for bar in drawn):
        patches.append(Patch(facecolor=_SEARCH, edgecolor=_OPEN, label="blind search, a control"))
    lines = [Line2D([], [], color=INK, linewidth=1.1, label=f"{CONFIDENCE:.0%} interval of one row")]
    if signs := sorted({bar.signs for bar in drawn if bar.signs}):
        lines.append(Line2D([], [], linestyle="none", label=f"{', '.join(signs)}: doubts about a gain"))
    legend = figure.legend(
        handles=[*patches, *lines],
        loc="outside lower left",
        ncols=min(len(panels) + 1, 4),
        fontsize=FONT_POINTS,
        frameon=False,
        alignment="left",
        title_fontsize=FONT_POINTS,
    )
    legend.set_title("\n".join(notes))
    legend.get_title().set_parse_math(False)
    return figure


def draw_gain_bars(axes: Axes, bars: Mapping[str, Bar | None], label: str) -> None:
    """Draw one bar per name, the first at height 0, as `plot_gains` does."""
    for height, bar in enumerate(bars.values()):
        value, low, high = bar.gain if bar else Estimate()
        if value is None or (value == 0 and low == high):  # 0 by construction, or on every image, has no interval
            text = "not run" if bar is None else MISSING if value is None else "0"
            axes.text(0, height, f" {text}", color=_OPEN, fontsize=FONT_POINTS, va="center_baseline")
            continue
        start, end = (value, value) if low is None or high is None else (low, high)
        colour = _BAR_COLOURS.get(bar.verdict, _OPEN) if bar and bar.verdict else _OPEN
        axes.barh(height, value, facecolor=colour, edgecolor=_OPEN if colour == _SEARCH else "none", height=0.62)
        axes.plot([start, end], [height, height], color=INK, linewidth=1.1, solid_capstyle="butt")
        if bar and bar.signs:
            axes.text(
                max(end, value, 0), height, f" {bar.signs}", color=INK, fontsize=FONT_POINTS, va="center_baseline"
            )
    axes.set_yticks(range(len(bars)), list(bars), fontsize=FONT_POINTS)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(label, fontsize=FONT_POINTS)
    axes.tick_params(labelsize=FONT_POINTS, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
