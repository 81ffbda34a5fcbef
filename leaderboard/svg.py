"""Charts as SVG for pages without a server: text and lines take the page's colour, light or dark."""

import re
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


# what renderers take for granted: half of a drawing
_TAG = re.compile(r"<[^>]+>")
_GRANTED = re.compile(r' (?:class|role|aria-[a-z]+|pointer-events)="[^"]*"| opacity="1"')
_PLACES = re.compile(r' (?:d|transform)="[^"]*"')
_FINE = re.compile(r"(\.\d)\d+")  # a tenth of a pixel is enough
_NOTHING = re.compile(r'<path d="[^"]*" display="none"/>|<path d="M0,0h0v0h0Z"/>')


def to_svg(chart: alt.LayerChart) -> str:
    """A chart as an SVG element that fits the width it is given; nothing is fetched."""
    drawn: str = vl_convert.vegalite_to_svg({**chart.to_dict(), "config": _CONFIG}, allowed_base_urls=[])
    lean = _NOTHING.sub("", _TAG.sub(_lean, drawn))
    return lean.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _lean(tag: re.Match[str]) -> str:
    return _PLACES.sub(lambda where: _FINE.sub(r"\1", where[0]), _GRANTED.sub("", tag[0]))
