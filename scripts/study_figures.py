"""The two figures of docs/study: gains with intervals, and what masks alone tell beside what is kept."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from roarbench.estimators.catalogue import find_estimator
from roarbench.report.panels import COLOURS, INK
from roarbench.stats.bootstrap import Estimate

FORMS = {  # one colour each, as in the curves; the control forms are drawn in grey and black
    "base": COLOURS[0],
    "squared": COLOURS[1],
    "smooth": COLOURS[2],
    "smoothed-square": COLOURS[4],
    "variance": COLOURS[5],
}
FORM_NAMES = {
    "base": "itself",
    "squared": "squared",
    "smooth": "SmoothGrad",
    "smoothed-square": "SmoothGrad-Squared",
    "variance": "VarGrad",
}
MARKERS = {"grad": "o", "gb": "s", "ig": "^"}
CONTROLS = {"random": ("#000000", "X"), "sobel": ("#777777", "P"), "random-blurred": ("#000000", "D")}
BASE_NAMES = {"grad": "gradient", "gb": "guided backprop", "ig": "integrated gradients"}
PANEL = 2.3  # inches
ACROSS = 4  # panels of gains beside each other


def look(name: str) -> tuple[str, str]:
    """Return colour and marker of an estimator, for its form and its base."""
    estimator = find_estimator(name)
    if estimator.control:
        return CONTROLS[name]
    return FORMS[estimator.form], MARKERS[estimator.base]


def draw_gains(parts: Mapping[str, Mapping[str, Estimate]], path: Path) -> None:
    """Draw a panel of gains with intervals for each data set and unit, all with the same rows and scale.

    Args:
        parts: By title, then by estimator.
        path: A PNG file.
    """
    names = list(dict.fromkeys(name for gains in parts.values() for name in gains))
    lines = -(-len(parts) // ACROSS)
    figure = Figure(figsize=(2.1 * ACROSS + 1.0, (0.2 * len(names) + 0.7) * lines), layout="constrained")
    panels = figure.subplots(lines, ACROSS, sharex=True, sharey=True, squeeze=False)
    for axes, (title, gains) in zip(panels.ravel(), parts.items(), strict=False):
        for row, name in enumerate(names):
            _draw_gain(axes, row, name, gains.get(name, Estimate()))
        axes.axvline(0, color=INK, linewidth=0.8)
        _dress(axes, title)
        axes.set_xlabel("gain, points", fontsize=8)
        axes.tick_params(labelbottom=True)
    for axes in panels.ravel()[len(parts) :]:
        axes.axis("off")
    panels[0, 0].set_yticks(range(len(names)), names)
    panels[0, 0].invert_yaxis()
    _save(figure, path)


def _draw_gain(axes: Axes, row: int, name: str, gain: Estimate) -> None:
    if gain.value is None:
        return
    colour, marker = look(name)
    if gain.low is not None and gain.high is not None:
        axes.plot([gain.low, gain.high], [row, row], color=colour, linewidth=1.6)
    axes.plot(gain.value, row, marker, color=colour, markersize=4.5)


def draw_leaks(
    parts: Mapping[str, Mapping[str, tuple[float, float]]], randoms: Mapping[str, float | None], path: Path
) -> None:
    """Draw accuracy on degraded images against that on the removed-maps alone, a panel for each data set and unit.

    Args:
        parts: By title, then by estimator: accuracy of masks alone and of images, in [0, 1].
        randoms: By title: accuracy on Random's degraded images.
        path: A PNG file.
    """
    count = 3
    rows = -(-len(parts) // count)
    figure = Figure(figsize=(PANEL * count + 0.6, (PANEL + 0.35) * rows + 0.6), layout="constrained")
    places = figure.subplots(rows, count, squeeze=False).ravel()
    for axes, (title, points) in zip(places, parts.items(), strict=False):
        _draw_points(axes, title, points, randoms[title])
    for axes in places[len(parts) :]:
        axes.axis("off")
    figure.legend(handles=_legend(), fontsize=7.5, frameon=False, loc="outside lower center", ncols=4)
    _save(figure, path)


def _draw_points(axes: Axes, title: str, points: Mapping[str, tuple[float, float]], random: float | None) -> None:
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle=":")
    if random is not None:
        axes.axhline(random, color="#000000", linewidth=0.8, linestyle="--")
    for name, (x, y) in points.items():
        colour, marker = look(name)
        axes.plot(x, y, marker, color=colour, markersize=5.5, markeredgecolor="white", markeredgewidth=0.5)
    values = [value for point in points.values() for value in point] or [0.0, 1.0]
    low, high = min(values) - 0.04, max(values) + 0.04
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    _dress(axes, title)
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("accuracy, masks alone", fontsize=8)
    axes.set_ylabel("accuracy, images", fontsize=8)


def _legend() -> Sequence[Line2D]:
    def handle(marker: str, colour: str, label: str, line: Literal["", "--", ":"] = "") -> Line2D:
        return Line2D([], [], color=colour, marker=marker, linestyle=line, linewidth=0.8, markersize=5.5, label=label)

    bases = [handle(MARKERS[base], "#555555", name) for base, name in BASE_NAMES.items()]
    forms = [handle("o", colour, FORM_NAMES[form]) for form, colour in FORMS.items()]
    lines = [handle("", "#000000", "Random, images", "--"), handle("", "#999999", "images = masks", ":")]
    looks = {"Sobel": CONTROLS["sobel"], "Random blurred": CONTROLS["random-blurred"]}
    controls = [handle(marker, colour, label) for label, (colour, marker) in looks.items()]
    return [*bases, *forms, *controls, *lines]


def _dress(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=8.5, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7.5, colors="#555555", length=2.5)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=160, facecolor="white", metadata={"Software": None})
