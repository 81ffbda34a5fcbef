"""Draw a suite's rows as charts: curves of accuracy, bars of gains, and gains against passes."""

from collections.abc import Iterable, Mapping
from itertools import product

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text
from matplotlib.ticker import ScalarFormatter
from matplotlib.transforms import Affine2D, Bbox

from roarbench.analysis.incomplete_results import remove_unfinished_sign
from roarbench.common.enums import Order
from roarbench.common.errors import CallerError
from roarbench.common.text import fit_on_one_line
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
from roarbench.stats.board_records import ONE_TRAINING, IntervalScope
from roarbench.stats.intervals import CONFIDENCE, Estimate
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict

# sizes of a figure of bars, in inches
_ROW_HEIGHT, _MARGINS, _TITLE_HEIGHT = 0.26, 0.75, 0.3
_FIRST_PANEL_WIDTH, _FURTHER_PANEL_WIDTH, _PASSES_PANEL_WIDTH = 6.4, 2.4, 4.0
_ABOVE, _BELOW, _OPEN = COLOURS[4], COLOURS[5], "#999999"  # colours of bars
_SEARCH = "white"  # with an edge; estimators have to exceed these bars
_BAR_COLOURS: dict[Verdict | OwnNetworkVerdict | None, str] = {
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
    if published and board.protocol not in (ROAR, KAR):
        shown = f"this plot shows {board.protocol.curve_axis} under {board.protocol.name}"
        raise CallerError(f"{shown}, but the paper's curves are accuracies under roar or kar; leave --published out")
    curves = read_published_curves(published, board.protocol.order) if published else {}
    return Chart(
        title=f"{table.suite_results.title}: {board.protocol.title}",
        caption=" ".join(filter(None, (f"{table.caption}.", bands, describe_missing_runs(table, signs=False)))),
        x_label=XLabel.KEPT if board.protocol.order is Order.LERF else XLabel.REMOVED,
        curves=tuple(make_panel_curve(row.estimator, board.make_accuracy_or_gain_curve(row)) for row in started),
        published=tuple(
            make_panel_curve(name, {t: Estimate(value) for t, value in curve.items()})
            for name, curve in curves.items()
            if any(row.estimator == name for row in board.rows)
        ),
        y_label=board.protocol.curve_axis,
    )


def make_panel_curve(name: str, points: Mapping[float, Estimate]) -> PanelCurve:
    """Return the curve of an estimator through its points, given by level."""
    estimator = find_estimator(name)
    return PanelCurve(name, estimator.base, estimator.control, points)


@use_own_settings()
def plot_gains(
    panels: Mapping[str, Mapping[str, Bar | None]],
    title: str = "",
    caption: Iterable[str] = (),
    passes: Mapping[str, float] = {},
) -> Figure:
    """Draw one panel per label with gains, one bar per name from top to bottom, a legend and the lines of a caption.

    The verdict of the table colours a bar: an interval that excludes 0 is not adjusted for the other rows. None stands
    for a row that was not run, an estimate without a value for a missing result. If the last panel has blind searches,
    one more panel shows its gains against the `passes` of an image's map by name.

    Raises:
        CallerError: All values are missing.
    """
    panels = {
        label: bars
        for label, bars in panels.items()
        if any(bar and bar.gain.value is not None for bar in bars.values())
    }
    drawn = [bar for bars in panels.values() for bar in bars.values() if bar]
    if not panels:
        raise CallerError("nothing to draw: no row has a gain; do some of the suite's runs first")
    rows = max(map(len, panels.values()))
    *_, (last_label, last) = panels.items()
    with_passes = {name: bar for name, bar in last.items() if bar and bar.gain.value is not None and name in passes}
    has_searches = any(bar.verdict is OwnNetworkVerdict.CONTROL for bar in with_passes.values())
    width = _FIRST_PANEL_WIDTH + _FURTHER_PANEL_WIDTH * (len(panels) - 1) + _PASSES_PANEL_WIDTH * has_searches
    notes = [part for line in remove_unfinished_sign(caption) for part in wrap_text(line, width, FONT_POINTS)]
    height = _MARGINS + _ROW_HEIGHT * rows + _TITLE_HEIGHT * len(title.splitlines()) + LINE_INCHES * len(notes)
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=TITLE_POINTS, color=INK, wrap=True, parse_math=False)
    grid = figure.add_gridspec(1, len(panels) + has_searches, width_ratios=[1] * len(panels) + [2] * has_searches)
    axes = [figure.add_subplot(grid[0, 0])]
    axes += [figure.add_subplot(grid[0, place], sharey=axes[0]) for place in range(1, len(panels))]
    for panel, (label, bars) in zip(axes, panels.items(), strict=True):
        draw_gain_bars(panel, bars, label)
    for panel in axes[1:]:
        panel.tick_params(labelleft=False)
    axes[0].set_ylim(rows - 0.4, -0.6)  # first row on top, with space above the axis
    if has_searches:
        cost = figure.add_subplot(grid[0, -1])
        draw_gains_against_passes(cost, with_passes, passes)
        cost.set_ylabel(last_label, fontsize=FONT_POINTS)
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
    if has_searches:
        figure.draw_without_rendering()  # computes the positions of the axes
        place_labels(cost)
    return figure


def draw_gain_bars(axes: Axes, bars: Mapping[str, Bar | None], label: str) -> None:
    """Draw one bar per name, the first at height 0, as `plot_gains` does."""
    for height, bar in enumerate(bars.values()):
        value, low, high = bar.gain if bar else Estimate()
        # a gain that is 0 by construction, or on every image, has no interval
        if bar is None or value is None or (value == 0 and low == high):
            text = "not run" if bar is None else bar.missing if value is None else "0"
            axes.text(0, height, f" {text}", color=_OPEN, fontsize=FONT_POINTS, va="center_baseline")
            continue
        start, end = (value, value) if low is None or high is None else (low, high)
        colour = _BAR_COLOURS.get(bar.verdict, _OPEN)
        axes.barh(height, value, facecolor=colour, edgecolor=_OPEN if colour == _SEARCH else "none", height=0.62)
        axes.plot([start, end], [height, height], color=INK, linewidth=1.1, solid_capstyle="butt")
        if bar.signs:
            at = max(end, value, 0)
            axes.text(at, height, f" {bar.signs}", color=INK, fontsize=FONT_POINTS, va="center_baseline")
    axes.set_yticks(range(len(bars)), list(bars), fontsize=FONT_POINTS, parse_math=False)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(label, fontsize=FONT_POINTS)
    axes.tick_params(labelsize=FONT_POINTS, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw_gains_against_passes(axes: Axes, bars: Mapping[str, Bar], passes: Mapping[str, float]) -> None:
    """Draw the gain of each row against its passes; a line joins blind searches, which estimators have to exceed."""
    searches = []
    for name, bar in bars.items():
        value, low, high = bar.gain
        if value is None or not passes[name]:
            continue
        if low is not None and high is not None:
            axes.plot([passes[name]] * 2, [low, high], color=INK, linewidth=0.6, zorder=1)
        colour = _BAR_COLOURS.get(bar.verdict, _OPEN)
        is_search = bar.verdict is OwnNetworkVerdict.CONTROL
        marker, height = ("D", 1.5) if is_search else ("o", 2)  # a search covers no estimator
        axes.plot(passes[name], value, marker, color=colour, markeredgecolor=_OPEN, markersize=5, zorder=height)
        if is_search:
            searches.append((passes[name], value))
        else:
            annotate_point(axes, fit_on_one_line(name, 24), passes[name], value)
    axes.plot(*zip(*sorted(searches), strict=True), color=_OPEN, linestyle="--", linewidth=1, zorder=0)
    annotate_point(axes, "blind search", *max(searches))
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low * (low / high) ** 0.3, high * (high / low) ** 0.5)  # space for labels
    ticks = list[float]()
    for tick in sorted({passes[name] for name in bars if passes[name]}):
        ticks += [tick] if not ticks or tick > 1.6 * ticks[-1] else []  # space for numbers
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.minorticks_off()
    axes.set_xlabel("passes for an image's map", fontsize=FONT_POINTS)
    axes.tick_params(labelsize=FONT_POINTS)
    axes.spines[["top", "right"]].set_visible(False)


def annotate_point(axes: Axes, text: str, x: float, y: float, size: float = FONT_POINTS) -> None:
    """Write a label at a point, with a line to it; `place_labels` places it."""
    line = {"arrowstyle": "-", "color": "0.7", "linewidth": 0.4, "shrinkA": 0, "shrinkB": 1, "relpos": (0, 0.2)}
    label = axes.annotate(
        text, (x, y), (0, 0), textcoords="offset points", fontsize=size, arrowprops=line, parse_math=False
    )
    label.set_in_layout(False)  # `place_labels` places it inside the axes


def place_labels(axes: Axes) -> None:
    """Place each label near its point and inside the axes, without covering labels, points or vertical lines.

    A label is at the right of its point, at the left, or higher or lower, whichever is free and nearest. It is hidden
    if no place is free.
    """
    scale, labels = 72 / axes.figure.dpi, [text for text in axes.texts if isinstance(text, Annotation)]
    points = {label: scale * axes.transData.transform(label.xy) for label in labels}
    taken = [Bbox.from_bounds(x - 2, y - 2, 4, 4) for x, y in points.values()]
    ends = [scale * line.get_transform().transform(line.get_xydata()) for line in axes.lines]
    taken += [Bbox(line) for line in ends if len(line) == 2 and line[0][0] == line[1][0]]
    inside = axes.bbox.frozen().transformed(Affine2D().scale(scale))
    for label in sorted(labels, key=lambda text: float(text.xy[1])):
        (x, y), size = points[label], float(label.get_fontsize())
        width = scale * Text.get_window_extent(label).width + 1  # without the line to the point
        for half_lines, shift in product(sorted(range(-40, 41), key=abs), (4, -width - 4)):
            rise = 1 + half_lines * size / 2
            box = Bbox.from_bounds(x + shift, y + rise - 0.2 * size, width, 1.1 * size)  # from descenders to ascenders
            if inside.contains(*box.min) and inside.contains(*box.max) and not box.count_overlaps(taken):
                taken.append(box)
                label.set_position((shift, rise))
                break
        else:
            label.set_visible(False)
