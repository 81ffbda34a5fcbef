"""Charts as SVG for pages without a server: text and lines take the page's colour, light or dark."""

from typing import Any

import altair as alt
import vl_convert

_INK = {"labelColor": "currentColor", "titleColor": "currentColor"}
_CONFIG: dict[str, Any] = {
    "background": None,
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {**_INK, "domainColor": "currentColor", "tickColor": "currentColor", "gridColor": "#80808040"},
    "legend": _INK,
    "title": {"color": "currentColor"},
    "aria": False,  # the page says in words what the figure shows
}


def to_svg(chart: alt.LayerChart) -> str:
    """A chart as an SVG element that fits the width it is given; nothing is fetched."""
    drawn: str = vl_convert.vegalite_to_svg({**chart.to_dict(), "config": _CONFIG}, allowed_base_urls=[])
    return drawn.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
