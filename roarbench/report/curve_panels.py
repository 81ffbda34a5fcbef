"""Draw accuracy against level like figure 4 of Hooker et al. 2019: a panel per base estimator, controls in each."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from scipy.optimize import isotonic_regression

from roarbench.common.errors import CallerError
from roarbench.common.files import convert_write_errors, write_atomically
from roarbench.estimators.catalogue import format_id_with_samples
from roarbench.plan.protocols import ACCURACY
from roarbench.stats.intervals import Estimate

FONT_POINTS = 8.5
LABEL_INCHES = 1.35 * FONT_POINTS / 72  # distance between the middles of two labels: a line of text with spacing
INK = "#222222"
# Okabe and Ito, "Color Universal Design" (2008), without yellow, which is too pale for lines; only controls are black
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00")
# forms of estimators (ids without the base) that have a fixed colour and marker
FORMS = ("", "-sq", "sg-", "sg--sq", "sgsq-", "var-")
# metadata to leave out, by file ending, so that equal figures give equal files
FORMATS: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
PANEL_TITLES = {"grad": "GRAD", "gb": "GB", "ig": "IG"}
PANELS_PER_ROW = 3
PANEL_WIDTH, PANEL_HEIGHT = 2.9, 3.0  # inches, without labels; higher for many labels
LINE_INCHES = 1.4 * FONT_POINTS / 72  # height of a line of text under the figure
TITLE_POINTS = FONT_POINTS + 3


@dataclass(frozen=True)
class PanelCurve:
    """The curve of one estimator: accuracies, or differences of accuracies, against levels."""

    estimator: str  # id, shown as label at the end of the line
    family: str  # base estimator (`grad`, `gb`, `ig`, …); a family shares a panel
    control: bool  # controls are drawn in every panel
    # accuracies in [0, 1], or differences of two accuracies, by level t in [0, 1], ascending
    points: Mapping[float, Estimate]

    @property
    def last_point(self) -> tuple[float, float] | None:
        """Return the last point, (t, accuracy); None if all accuracies are missing."""
        present = [(t, at.value) for t, at in self.points.items() if at.value is not None]
        return present[-1] if present else None


class Style(NamedTuple):
    """Style of a curve; curves differ in colour and in marker, so a print in grey distinguishes them."""

    color: str  # a colour of matplotlib
    marker: str
    linestyle: str


def choose_styles(curves: Sequence[PanelCurve]) -> dict[str, Style]:
    """Choose one style per estimator; a variant such as VarGrad keeps its style in the panel of each base estimator."""
    styles = {
        "random": Style("#000000", "x", "-."),
        "sobel": Style("#777777", "+", "-."),
        "sobel-released": Style("#777777", "|", ":"),
        "random-blurred": Style("#000000", "o", ":"),
    }
    estimators = controls = 0
    for curve in curves:
        if curve.estimator in styles:
            continue
        if curve.control:  # grey, so that estimators with access to a network stand out
            styles[curve.estimator] = Style("#999999", "v^<>dsp*"[controls % 8], ":")
            controls += 1
            continue
        form = curve.estimator.replace(curve.family, "", 1)
        if form in FORMS:
            i = FORMS.index(form)
            styles[curve.estimator] = Style(COLOURS[i], "osD^vP"[i], "-")
        else:
            i = estimators % len(COLOURS)
            styles[curve.estimator] = Style(COLOURS[-1 - i], "hdp<>*"[i], "-")
            estimators += 1
    return styles


def draw_measured_curve(axes: Axes, curve: PanelCurve, style: Style) -> None:
    """Draw a line with markers and a band; a missing point is a gap."""
    accuracy, low, high = np.array(list(curve.points.values()), float).T  # None becomes NaN
    axes.fill_between(list(curve.points), low, high, color=style.color, alpha=0.13, linewidth=0)
    label = format_id_with_samples(curve.estimator)
    axes.plot(list(curve.points), accuracy, **style._asdict(), markersize=4.2, linewidth=1.6, label=label)


def label_curve_ends(
    axes: Axes, measured: Sequence[PanelCurve], published: Sequence[PanelCurve], styles: dict[str, Style]
) -> None:
    """Write each name once at the right of the panel, joined to its curve's end; axis limits must be set before."""
    # a measured curve replaces the published curve of the same name
    curves = {curve.estimator: curve for curve in (*published, *measured)}
    ends = [(name, curve.last_point) for name, curve in curves.items() if curve.last_point]
    (left, edge), (low, high) = axes.get_xlim(), axes.get_ylim()
    figure = axes.get_figure(root=True)
    assert figure is not None, "the axes are in no figure"
    inches = axes.get_position().height * figure.get_figheight()
    heights = spread_label_positions(
        [accuracy for _, (_, accuracy) in ends], LABEL_INCHES * (high - low) / inches, low, high
    )
    label_x = edge + 0.05 * (edge - left)
    for (name, (t, accuracy)), height in zip(ends, heights, strict=True):
        colour, marker, _ = styles[name]
        face = colour if curves[name] in measured else "white"
        axes.plot([t, label_x], [accuracy, height], color=colour, linewidth=0.7, alpha=0.8, clip_on=False)
        axes.plot([label_x], [height], color=colour, marker=marker, markersize=4.2, markerfacecolor=face, clip_on=False)
        axes.annotate(
            format_id_with_samples(name),
            (label_x, height),
            xytext=(6, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=FONT_POINTS,
            color=INK,
            parse_math=False,
            annotation_clip=False,
        )


def spread_label_positions(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions in [low, high] at least `gap` apart, in the order of the wanted positions and nearest to them.

    The sum of squared distances is smallest: after i * gap is subtracted from the i-th position, the problem is an
    isotonic regression, which is clipped to the bounds. Ties keep their order; positions that do not fit exceed `high`.
    """
    order = np.argsort(wanted, kind="stable")
    offsets = gap * np.arange(len(wanted))
    fitted = isotonic_regression(np.asarray(wanted, dtype=float)[order] - offsets).x
    positions = np.empty(len(wanted))
    positions[order] = np.clip(fitted, low, max(low, high - gap * (len(wanted) - 1))) + offsets
    return list(map(float, positions))


class XLabel(StrEnum):
    """Label of the horizontal axis; with either label, points are drawn at t."""

    REMOVED = "removed, t"
    KEPT = "kept = 1 - t"


@dataclass(frozen=True)
class Chart:
    """Content of a figure."""

    title: str
    caption: str  # description of levels, seeds, images, unit, fill value and bands
    x_label: XLabel
    curves: tuple[PanelCurve, ...]
    # published curves: dashed, with open markers; labels only for names without a measured curve
    published: tuple[PanelCurve, ...] = ()
    y_label: str = ACCURACY

    @property
    def all_curves(self) -> tuple[PanelCurve, ...]:
        return tuple(curve for curve in (*self.curves, *self.published) if curve.last_point)

    @property
    def families(self) -> list[str]:
        return list(dict.fromkeys(curve.family for curve in self.all_curves if not curve.control)) or [""]


def check_picture_path(path: Path) -> None:
    """Raise CallerError unless a picture's name ends in .png, .svg or .pdf and its folder exists."""
    if path.suffix.lower() not in FORMATS:
        advice = f"a picture is .png, .svg or .pdf; write {path.stem or 'curves'}.png"
        raise CallerError(f"cannot draw '{path.name or path}': {advice}")
    if not path.parent.is_dir():
        raise CallerError(f"cannot write {path}: there is no folder {path.parent}; create it, or name another folder")


@contextmanager
def use_own_settings() -> Iterator[None]:
    """Draw with matplotlib's defaults, and not with the user's matplotlibrc.

    With `text.usetex`, for example, LaTeX would take the rest of a caption after % for a comment, or be missing.
    """
    with mpl.style.context("default"), mpl.rc_context({"svg.hashsalt": "roarbench"}):
        yield


def save_figure(figure: Figure, path: Path, metadata: Mapping[str, str | None] = {}) -> None:
    """Write a figure as PNG, SVG or PDF, with this metadata; raise CallerError as `check_picture_path` does."""
    check_picture_path(path)
    ending = path.suffix.lower()
    write = partial(figure.savefig, format=ending[1:], dpi=160, metadata={**FORMATS[ending], **metadata})
    with use_own_settings(), convert_write_errors(path):
        write_atomically(path, write)


@use_own_settings()
def make_figure(chart: Chart) -> Figure:
    """Draw the chart with a panel per family, in the curves' order; CallerError without points."""
    if not chart.all_curves:
        raise CallerError("nothing to draw: no curve has a finished point; do some of the suite's runs first")
    figure, panels = _make_figure_with_panels(chart)
    styles = choose_styles(chart.all_curves)
    for family, axes in zip(chart.families, panels, strict=True):
        _set_up_axes(axes, chart, family)
        measured = _select_family_and_controls(chart.curves, family)
        published = _select_family_and_controls(chart.published, family)
        thin = {"linestyle": (0, (3, 2)), "markerfacecolor": "white", "markersize": 4, "linewidth": 0.9}
        for curve in published:  # in the measured curve's colour, dashed and with open markers
            look: dict[str, Any] = styles[curve.estimator]._asdict() | thin
            accuracy = np.array([at.value for at in curve.points.values()], float)
            axes.plot(list(curve.points), accuracy, **look, label=f"{curve.estimator} (published)")
        for curve in measured:
            draw_measured_curve(axes, curve, styles[curve.estimator])
        label_curve_ends(axes, measured, published, styles)
    return figure


def _select_family_and_controls(curves: Sequence[PanelCurve], family: str) -> list[PanelCurve]:
    return [curve for curve in curves if curve.last_point and (curve.control or curve.family == family)]


def _make_figure_with_panels(chart: Chart) -> tuple[Figure, list[Axes]]:
    """Place title, panels and notes, with room for all labels; lengths are in inches."""
    rows = ceil(len(chart.families) / PANELS_PER_ROW)
    columns = ceil(len(chart.families) / rows)  # for example four panels in two rows of two
    names = [
        {format_id_with_samples(curve.estimator) for curve in _select_family_and_controls(chart.all_curves, family)}
        for family in chart.families
    ]
    panel_height = max(PANEL_HEIGHT, max(map(len, names)) * LABEL_INCHES)
    left, gap, margin = 0.7, 0.8, 0.15
    edges = [left]  # of each column, whose longest label decides its width
    for column in range(columns):
        longest = max(_estimate_text_width(name, FONT_POINTS) for some in names[column::columns] for name in some)
        edges.append(edges[-1] + PANEL_WIDTH + 0.45 + longest)
    longest_word = max(_estimate_text_width(word, TITLE_POINTS) for word in chart.title.split())
    width = max(edges[-1], longest_word + 3 * margin)
    titles = wrap_text(chart.title, width - 3 * margin, TITLE_POINTS)
    top = 0.7 + (len(titles) - 1) * LINE_INCHES * TITLE_POINTS / FONT_POINTS
    notes = wrap_text(
        f"{chart.caption}{' Thin dashed lines: published.' * bool(chart.published)}", width - 2 * margin, FONT_POINTS
    )
    bottom = 0.65 + len(notes) * LINE_INCHES
    height = top + rows * panel_height + (rows - 1) * gap + bottom

    figure = Figure(figsize=(width, height), facecolor="white")
    x, y = margin / width, margin / height
    figure.text(x, 1 - y, "\n".join(titles), fontsize=TITLE_POINTS, color=INK, va="top", parse_math=False)
    figure.text(x, y, "\n".join(notes), fontsize=FONT_POINTS, color="#555555", va="bottom", parse_math=False)
    panels = []
    for row, column in (divmod(number, columns) for number in range(len(chart.families))):
        x = edges[column]
        y = bottom + (rows - 1 - row) * (panel_height + gap)
        panels.append(figure.add_axes((x / width, y / height, PANEL_WIDTH / width, panel_height / height)))
        panels[-1].tick_params(labelleft=column == 0)
    return figure, panels


def _set_up_axes(axes: Axes, chart: Chart, family: str) -> None:
    """Set title, axes, ticks and limits of a panel; all panels share the limits."""
    axes.set_title(PANEL_TITLES.get(family, family), loc="left", fontsize=FONT_POINTS + 1, color=INK, parse_math=False)
    axes.set_xlabel(chart.x_label, fontsize=FONT_POINTS, color=INK)
    if family == chart.families[0]:
        axes.set_ylabel(chart.y_label, fontsize=FONT_POINTS, color=INK)
    levels = sorted({t for curve in chart.all_curves for t in curve.points})
    ticks = levels if all(b - a >= 0.1 * levels[-1] for a, b in pairwise(levels)) else [0, 0.25, 0.5, 0.75, 1]
    axes.set_xticks(ticks, [f"{1 - t if chart.x_label is XLabel.KEPT else t:.3g}" for t in ticks])
    margin = 0.03 * max(levels[-1] - levels[0], 0.1)
    axes.set_xlim(levels[0] - margin, levels[-1] + margin)
    shown = [end for curve in chart.all_curves for at in curve.points.values() for end in at if end is not None]
    margin = 0.05 * max(max(shown) - min(shown), 0.02)
    axes.set_ylim(min(shown) - margin, max(shown) + margin)
    signed, unit = ("", " %") if chart.y_label == ACCURACY else ("+", "")
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{100 * value:{signed if value else ''}.4g}{unit}".replace("-", "−"))
    )
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=FONT_POINTS - 0.5, colors="#555555", length=2.5)


def wrap_text(text: str, inches: float, points: float) -> list[str]:
    return wrap(text, int(inches / _estimate_text_width("n", points)), break_long_words=False, break_on_hyphens=False)


def _estimate_text_width(text: str, points: float) -> float:
    """Return a high estimate of a text's width in inches: 0.65 of the font size for each letter; the average is 0.6."""
    return 0.65 * len(text) * points / 72
