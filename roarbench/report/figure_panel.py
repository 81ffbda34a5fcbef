"""One panel of a figure: its curves with bands, and their names at the line ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import isotonic_regression

from roarbench.estimators.catalogue import format_name

FONT_POINTS = 8.5
LABEL_INCHES = 1.35 * FONT_POINTS / 72  # from one label's middle to the next: a line of text and a little air
INK = "#222222"
# Okabe and Ito, "Color Universal Design" (2008), without yellow, which is too pale for lines; black is for controls
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00")
FORMS = ("", "-sq", "sg-", "sg--sq", "sgsq-", "var-")  # an estimator's id without its family: one look each


@dataclass(frozen=True)
class Curve:
    """One estimator's accuracies."""

    estimator: str  # its id, the label at the line's end
    family: str  # base estimator (`grad`, `gb`, `ig`, …): curves of one family share a panel
    control: bool  # drawn in every panel
    levels: tuple[float, ...]  # t of each point, rising, in [0, 1]
    # fraction in [0, 1] at each level, or a difference of two; None where it is missing
    accuracy: tuple[float | None, ...]
    low: tuple[float | None, ...]  # low, high: ends of its interval; None where there is none
    high: tuple[float | None, ...]

    @property
    def end(self) -> tuple[float, float] | None:
        """Return the last point that is there, (t, accuracy); None if there is none."""
        present = [(t, value) for t, value in zip(self.levels, self.accuracy, strict=True) if value is not None]
        return present[-1] if present else None


class Style(NamedTuple):
    """Look of a curve; markers and lines differ too, so that the picture reads in grey."""

    color: str  # as matplotlib has it
    marker: str
    linestyle: str


def choose_styles(curves: Sequence[Curve]) -> dict[str, Style]:
    """Choose one style per estimator; the same form of another base looks the same in its own panel."""
    styles = {
        "random": Style("#000000", "x", "-."),
        "sobel": Style("#777777", "+", "-."),
        "sobel-released": Style("#777777", "|", ":"),
        "random-blurred": Style("#000000", "o", ":"),
    }
    others = controls = 0
    for curve in curves:
        if curve.estimator in styles:
            continue
        if curve.control:  # grey, so that what explains a network stands out
            styles[curve.estimator] = Style("#999999", "v^<>dsp*"[controls % 8], ":")
            controls += 1
            continue
        form = curve.estimator.replace(curve.family, "", 1)
        if form in FORMS:
            i = FORMS.index(form)
            styles[curve.estimator] = Style(COLOURS[i], "osD^vP"[i], "-")
        else:
            i = others % len(COLOURS)
            styles[curve.estimator] = Style(COLOURS[-1 - i], "hdp<>*"[i], "-")
            others += 1
    return styles


def draw_measured(axes: Axes, curve: Curve, style: Style) -> None:
    """Draw a line with a marker at each point and its band; a missing point is a gap."""
    accuracy, low, high = (np.array(row, float) for row in (curve.accuracy, curve.low, curve.high))  # None is NaN
    axes.fill_between(curve.levels, low, high, color=style.color, alpha=0.13, linewidth=0)
    label = format_name(curve.estimator)
    axes.plot(curve.levels, accuracy, **style._asdict(), markersize=4.2, linewidth=1.6, label=label)


def draw_published(axes: Axes, curve: Curve, style: Style) -> None:
    """Draw a curve in the colour of the measured one, but thin, dashed and with open markers."""
    look = style._asdict() | {"linestyle": (0, (3, 2)), "markerfacecolor": "white", "markersize": 4, "linewidth": 0.9}
    axes.plot(curve.levels, np.array(curve.accuracy, float), **look, label=f"{curve.estimator} (published)")


def label_ends(axes: Axes, measured: Sequence[Curve], published: Sequence[Curve], styles: dict[str, Style]) -> None:
    """Write each name once right of the panel, near its curve's end, with a line to it; limits must be set before."""
    curves = {curve.estimator: curve for curve in (*published, *measured)}  # a measured curve takes the name
    ends = [(name, curve.end) for name, curve in curves.items() if curve.end]
    (left, edge), (low, high) = axes.get_xlim(), axes.get_ylim()
    figure = axes.get_figure(root=True)
    assert figure is not None, "the axes are in no figure"
    inches = axes.get_position().height * figure.get_figheight()
    heights = spread_labels([accuracy for _, (_, accuracy) in ends], LABEL_INCHES * (high - low) / inches, low, high)
    beside = edge + 0.05 * (edge - left)
    for (name, (t, accuracy)), height in zip(ends, heights, strict=True):
        colour, marker, _ = styles[name]
        face = colour if curves[name] in measured else "white"
        axes.plot([t, beside], [accuracy, height], color=colour, linewidth=0.7, alpha=0.8, clip_on=False)
        axes.plot([beside], [height], color=colour, marker=marker, markersize=4.2, markerfacecolor=face, clip_on=False)
        axes.annotate(
            name,
            (beside, height),
            xytext=(6, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=FONT_POINTS,
            color=INK,
            parse_math=False,
            annotation_clip=False,
        )


def spread_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions as near as possible to the wanted ones, in the same order, `gap` or more apart, in [low, high].

    Least squares: with i * gap taken from the i-th, "gap apart" becomes "not falling", which is isotonic regression;
    clipping its answer to bounds gives the answer with bounds. Ties keep their order; what does not fit goes past high.
    """
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    eased = isotonic_regression(np.asarray(wanted, dtype=float)[order] - steps).x
    positions = np.empty(len(wanted))
    positions[order] = np.clip(eased, low, max(low, high - gap * (len(wanted) - 1))) + steps
    return [float(position) for position in positions]
