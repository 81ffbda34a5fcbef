"""Draw the figures of the benchmark: ROAR against own-network gain, gain against passes, and README.md's picture."""

import csv
from collections.abc import Mapping
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from roarbench.analysis.suite_judges import judge_suite
from roarbench.api.published_results import load_published_results
from roarbench.common.enums import Unit
from roarbench.estimators.catalogue import format_id_with_samples
from roarbench.plan.protocols import ROAR
from roarbench.report.combined_table import make_combined_table
from roarbench.report.curve_panels import (
    COLOURS,
    FONT_POINTS,
    FORMATS,
    Style,
    choose_styles,
    draw_measured_curve,
    label_curve_ends,
)
from roarbench.report.suite_charts import annotate_point, draw_gain_bars, make_panel_curve, place_labels
from roarbench.stats.intervals import Estimate
from studies.paper.published import DataSet, cost

HERE = Path(__file__).parent
README_PICTURE = HERE.parents[1] / "docs" / "imagenette.png"
# curves of the picture in README.md
_PICTURED = ("input-x-grad", "ig", "sgsq-grad", "grad", "var-grad", "sg-grad", "random-blurred", "sobel", "random")
SEARCHES = HERE.parent / "search" / "frontier.csv"
_PASSES = (2, 10, 50, 200, 800)  # ticks
_ACROSS = 2  # panels in a row
_SIZE = 7  # font size of labels in points


def draw_questions(sets: list[DataSet]) -> None:
    """Draw own-network gain against ROAR gain, with a panel for each data set that has both."""
    shown = [dataset for dataset in sets if dataset.own.keys() & dataset.roar.keys()]
    figure, panels = _panels(len(shown))
    for axes, dataset in zip(panels, shown, strict=True):
        _points(axes, dataset, {name: dataset.roar[name].gain for name in dataset.roar if name in dataset.own})
        axes.set(title=dataset.name, xlabel="ROAR gain at .9, points", ylabel="own-network gain, points")
        axes.axvline(0, color="0.7", linewidth=0.8)
    _save(figure, "questions.svg")


def draw_readme_picture(dataset: DataSet) -> None:
    """Draw the two panels of README.md's picture: ROAR curves, and own-network gains in the suite quick."""
    figure = Figure(figsize=(9.4, 4.2), facecolor="white")
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.85, "left": 0.07, "right": 0.99})
    board = judge_suite(dataset.results).make_board(ROAR, Unit.SCALAR)
    assert board, "ROAR was not run"
    rows = {row.estimator: row for row in board.rows if row.estimator in _PICTURED}
    curves = [make_panel_curve(name, board.make_accuracy_or_gain_curve(row)) for name, row in rows.items()]
    # in one panel, estimates of all bases need their own colours
    styles = choose_styles(curves) | {"ig": Style(COLOURS[1], "h", "-"), "input-x-grad": Style(COLOURS[3], "d", "-")}
    for curve in curves:
        draw_measured_curve(left, curve, styles[curve.estimator])
    left.set(title="ROAR: test accuracy after retraining")
    left.set_xlabel("fraction of the features removed, t; bands: 95 %", fontsize=FONT_POINTS)
    left.set_xticks([0, *board.levels], [f"{t:g}" for t in (0, *board.levels)])
    left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    label_curve_ends(left, curves, (), styles)
    *_, bars = make_combined_table(load_published_results("quick").stored).bars_by_axis_label.values()
    draw_gain_bars(right, bars, "points, 95 %; blue: explains its network; white: blind search (control)")
    right.set(ylim=(len(bars) - 0.4, -0.6), title="own-network gain")
    for axes in (left, right):
        axes.title.set_fontsize(FONT_POINTS + 1)
        axes.tick_params(labelsize=FONT_POINTS)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(README_PICTURE, dpi=150, metadata=FORMATS[".png"], bbox_inches="tight")


def draw_fronts(sets: list[DataSet]) -> None:
    """Draw own-network gain against passes, with a panel for each data set and the gain of blind searches as a line."""
    shown = [dataset for dataset in sets if dataset.own]
    figure, panels = _panels(len(shown))
    for axes, dataset in zip(panels, shown, strict=True):
        _points(axes, dataset, {name: Estimate(float(cost(name))) for name in dataset.own})
        _draw_searches(axes, dataset.name)
        axes.set(title=dataset.name, xlabel="passes for an image", ylabel="own-network gain, points", xscale="log")
        axes.set_xlim(1.5, 8000)
        axes.set_xticks(_PASSES, map(str, _PASSES))
        axes.minorticks_off()
    _save(figure, "cost.svg")


def _draw_searches(axes: Axes, name: str) -> None:
    """Draw the gain of blind searches of a data set, with its interval as a band."""
    with SEARCHES.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["data set"], row["order"]) == (name, "morf")]
    if not rows:
        return
    passes, gain, low, high = ([float(row[key]) for row in rows] for key in ("passes", "gain", "low", "high"))
    axes.fill_between(passes, low, high, color="C1", alpha=0.15, linewidth=0)
    axes.plot(passes, gain, color="C1")
    axes.text(passes[-1], gain[-1], " blind search", color="C1", fontsize=_SIZE)


def _save(figure: Figure, name: str) -> None:
    figure.draw_without_rendering()  # computes the positions of the axes
    for axes in figure.axes:
        place_labels(axes)
    with rc_context({"svg.hashsalt": name}):  # the same file from the same rows
        figure.savefig(HERE / name, metadata={"Date": None})


def _panels(number: int) -> tuple[Figure, list[Axes]]:
    rows = -(-number // _ACROSS)
    figure = Figure(figsize=(5.5 * min(number, _ACROSS), 4.5 * rows), layout="constrained")
    places = figure.subplots(rows, min(number, _ACROSS), squeeze=False).flatten()
    for unused in places[number:]:
        unused.remove()
    return figure, [*places[:number]]


def _points(axes: Axes, dataset: DataSet, across: Mapping[str, Estimate]) -> None:
    axes.axhline(0, color="0.7", linewidth=0.8)
    for name, x in across.items():
        y = dataset.own[name].gain
        assert x.value is not None and y.value is not None, "rows without a gain are left out"
        axes.errorbar(x.value, y.value, _bars(y), _bars(x), fmt="none", ecolor="lightsteelblue", elinewidth=0.6)
        axes.plot(x.value, y.value, "o", color="C0", markersize=3)
        annotate_point(axes, format_id_with_samples(name), x.value, y.value, _SIZE)


def _bars(found: Estimate) -> list[list[float]] | None:
    value, low, high = found
    return None if value is None or low is None or high is None else [[value - low], [high - value]]
