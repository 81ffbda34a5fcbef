"""The figures of the benchmark: both questions side by side, and gain against cost."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from roarbench.estimators.catalogue import format_estimator_name
from roarbench.stats.bootstrap import Estimate
from studies.paper.published import DataSet, cost, front, value_of

HERE = Path(__file__).parent
_PASSES = (2, 10, 50, 200, 800)  # ticks
_ACROSS = 3  # panels in a row
_SIZE = 6  # of labels, in points; a letter is about half as wide as high


def draw_questions(sets: list[DataSet]) -> None:
    """Draw ROAR gain against own-network gain, a panel for each data set that has both."""
    shown = [each for each in sets if each.own.keys() & each.roar.keys()]
    figure, panels = _panels(len(shown))
    for axes, each in zip(panels, shown, strict=True):
        _points(axes, each, {name: each.roar[name].gain for name in each.roar if name in each.own})
        axes.set(title=each.name, xlabel="ROAR gain at .9, points", ylabel="own-network gain, points")
        axes.axvline(0, color="0.7", linewidth=0.8)
    _save(figure, "questions.svg")


def draw_fronts(sets: list[DataSet]) -> None:
    """Draw own-network gain against passes, a panel for each data set, with the front as a line."""
    shown = [each for each in sets if each.own]
    figure, panels = _panels(len(shown))
    for axes, each in zip(panels, shown, strict=True):
        _points(axes, each, {name: Estimate(float(cost(name))) for name in each.own})
        best = list(front(each))
        axes.step([cost(name) for name in best], [value_of(each.own[name]) for name in best], where="post", color="C1")
        axes.set(title=each.name, xlabel="passes for an image", ylabel="own-network gain, points", xscale="log")
        axes.set_xlim(1.5, 2000)
        axes.set_xticks(_PASSES, map(str, _PASSES))
        axes.minorticks_off()
    _save(figure, "cost.svg")


def _save(figure: Figure, name: str) -> None:
    figure.draw_without_rendering()  # fixes the places of the axes
    for axes in figure.axes:
        _lift_labels(axes)
    with rc_context({"svg.hashsalt": name}):  # the same file from the same rows
        figure.savefig(HERE / name, metadata={"Date": None})


def _panels(number: int) -> tuple[Figure, list[Axes]]:
    rows = -(-number // _ACROSS)
    figure = Figure(figsize=(5.5 * min(number, _ACROSS), 4.5 * rows), layout="constrained")
    places = figure.subplots(rows, min(number, _ACROSS), squeeze=False).flatten()
    for unused in places[number:]:
        unused.remove()
    return figure, [*places[:number]]


def _points(axes: Axes, each: DataSet, across: Mapping[str, Estimate]) -> None:
    axes.axhline(0, color="0.7", linewidth=0.8)
    for name, x in across.items():
        y = each.own[name].gain
        assert x.value is not None and y.value is not None, "rows without a gain are left out"
        axes.errorbar(x.value, y.value, yerr=_bars(y), xerr=_bars(x), fmt="o", color="C0", elinewidth=0.6, markersize=3)
        axes.annotate(
            format_estimator_name(name), (x.value, y.value), (0, 0), textcoords="offset points", fontsize=_SIZE
        )


def _lift_labels(axes: Axes) -> None:
    """Place each label right of its point, from the lowest upwards, above the labels that it would cover."""
    scale, taken = 72 / axes.figure.dpi, list[tuple[float, float, float]]()
    labels = [each for each in axes.texts if isinstance(each, Annotation)]
    for label in sorted(labels, key=lambda each: float(each.xy[1])):
        x, y = scale * axes.transData.transform(label.xy) + (4, 1)
        width, place = 0.55 * _SIZE * len(label.get_text()), float(y)
        for left, right, other in sorted(taken, key=lambda each: each[2]):
            if left < x + width and x < right and abs(place - other) < _SIZE:
                place = other + _SIZE
        taken.append((x, x + width, place))
        label.set_position((4, place - y + 1))


def _bars(found: Estimate) -> list[list[float]] | None:
    value, low, high = found
    return None if value is None or low is None or high is None else [[value - low], [high - value]]
