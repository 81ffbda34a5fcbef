"""Gains with their intervals as horizontal bars, for a handful of estimators."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from roarbench.report.panels import COLOURS, FONT_POINTS, INK
from roarbench.stats.bootstrap import Estimate

_ROW, _MARGINS = 0.26, 0.75  # inches
_ABOVE, _BELOW, _OPEN = COLOURS[4], COLOURS[5], "#999999"


def draw_gains(gains: Mapping[str, Estimate], label: str) -> Figure:
    """Draw one bar for each name, from top to bottom; blue above 0, orange below, grey where the interval holds 0."""
    figure = Figure(figsize=(6.4, _MARGINS + _ROW * len(gains)), facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    for height, (value, low, high) in enumerate(gains.values()):
        start, end = (value or 0.0, value or 0.0) if low is None or high is None else (low, high)
        colour = _ABOVE if start > 0 else _BELOW if end < 0 else _OPEN
        axes.barh(height, value or 0.0, color=colour, height=0.62)
        axes.plot([start, end], [height, height], color=INK, linewidth=1.1, solid_capstyle="butt")
    axes.set_yticks(range(len(gains)), list(gains), fontsize=FONT_POINTS)
    axes.invert_yaxis()
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(label, fontsize=FONT_POINTS)
    axes.tick_params(labelsize=FONT_POINTS, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure
