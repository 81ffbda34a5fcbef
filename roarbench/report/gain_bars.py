"""Gains with their intervals as horizontal bars, for a handful of estimators."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from roarbench.errors import CallerError
from roarbench.report.figure_panel import COLOURS, FONT_POINTS, INK
from roarbench.stats.bootstrap import Estimate
from roarbench.text import MISSING

_ROW, _MARGINS = 0.26, 0.75  # inches
_FIRST, _FURTHER = 6.4, 2.4
_ABOVE, _BELOW, _OPEN = COLOURS[4], COLOURS[5], "#999999"


def draw_gains(panels: Mapping[str, Mapping[str, Estimate | None]]) -> Figure:
    """Draw a panel for each label, with one bar for each of the same names from top to bottom.

    Bars are blue above 0, orange below, grey where the interval holds 0. None is what was not run, an
    estimate without a value what is missing.

    Raises:
        CallerError: There is no value at all.
    """
    if not any(gain and gain.value is not None for gains in panels.values() for gain in gains.values()):
        raise CallerError("nothing to draw: no row has a gain; do some of the suite's runs first")
    rows = max(map(len, panels.values()))
    size = (_FIRST + _FURTHER * (len(panels) - 1), _MARGINS + _ROW * rows)
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for each, (label, gains) in zip(axes, panels.items(), strict=True):
        _draw_panel(each, gains, label)
    axes[0].set_ylim(rows - 0.4, -0.6)  # from top to bottom, clear of the axis below
    return figure


def _draw_panel(axes: Axes, gains: Mapping[str, Estimate | None], label: str) -> None:
    for height, gain in enumerate(gains.values()):
        value, low, high = gain or Estimate()
        if not value:
            word = "not run" if gain is None else MISSING if value is None else "0"
            axes.text(0, height, f" {word}", color=_OPEN, fontsize=FONT_POINTS, va="center_baseline")
            continue
        start, end = (value, value) if low is None or high is None else (low, high)
        colour = _ABOVE if start > 0 else _BELOW if end < 0 else _OPEN
        axes.barh(height, value, color=colour, height=0.62)
        axes.plot([start, end], [height, height], color=INK, linewidth=1.1, solid_capstyle="butt")
    axes.set_yticks(range(len(gains)), list(gains), fontsize=FONT_POINTS)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(label, fontsize=FONT_POINTS)
    axes.tick_params(labelsize=FONT_POINTS, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
