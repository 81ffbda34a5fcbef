"""Altair charts of frozen records. The app shows them as they are, the static pages as SVG."""

import re
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import altair as alt
import vl_convert

from leaderboard.compare import PairComparison
from leaderboard.curves import CurvePoint, CurveTable
from leaderboard.rows import BEATS, BELOW, NEITHER, BoardRow, BoardTable
from leaderboard.text import plain
from roarbench.protocols import SHOWN
from roarbench.protocols.declaration import ACCURACY

# Okabe and Ito, "Color Universal Design" (2008), without yellow, which is too pale for lines
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
CONTROL = "#808080"  # reads on white and on black
_SHAPES = {"random": "circle", "sobel": "square", "random-blurred": "diamond"}  # the controls share their colour
_OTHERS = ("triangle-up", "cross", "triangle-right", "triangle-down", "triangle-left")
_ROW = 22  # pixels of height for one estimator
_NAME = 160  # pixels that a name may fill
_TICKS = 8  # levels that have room for a label each
_KINDS = {BEATS: "#009E73", BELOW: "#D55E00", NEITHER: "#0072B2", "control": CONTROL}


def gain_chart(table: BoardTable, width: int = 560) -> alt.LayerChart:
    """Draw one bar per row: the interval of its gain on a common scale; a line at 0, broken ones at controls' gains."""
    rows = [_gain_row(row) for row in table.rows if row.gain.value is not None]
    names = [row["estimator"] for row in rows]
    y = alt.Y("estimator:N", sort=names, title=None, axis=alt.Axis(labelLimit=_NAME))
    title = SHOWN[table.protocol].gain_axis
    kinds = alt.Scale(domain=list(_KINDS), range=list(_KINDS.values()))
    legend = alt.Legend(orient="bottom", columns=2, symbolOpacity=1)  # two fit a phone
    colour = alt.Color("kind:N", scale=kinds, title=None, legend=legend)
    tips = [_tip("estimator"), _tip("beats"), *(_tip(key, "+.1f") for key in ("gain", "low", "high"))]
    base = alt.Chart(_data(rows)).encode(y=y, color=colour, tooltip=tips)
    bars = base.mark_bar(height=9, opacity=0.35).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    points = base.mark_point(filled=True, size=55, opacity=1).encode(x=alt.X("gain:Q", title=title))
    lines = [_rule(0.0, []), *(_rule(gain, _DASHES[name]) for name, gain in table.lines.items())]
    return _sized(alt.layer(*lines, bars, points), width, max(2, len(rows)) * _ROW)


_DASHES = {"sobel": [4, 3], "random-blurred": [1, 2]}


def _gain_row(row: BoardRow) -> dict[str, Any]:
    value, low, high = row.gain
    ends = {"gain": value, "low": low, "high": high}
    return {"estimator": plain(row.estimator, 60), **ends, "kind": row.kind, "beats": row.beats}


def _rule(x: float, dash: list[int]) -> alt.Chart:
    rule = alt.Chart(_data([{"x": x}])).mark_rule(color=CONTROL, strokeDash=dash, size=1.5)
    drawn: alt.Chart = rule.encode(x="x:Q")
    return drawn


def curve_chart(table: CurveTable, width: int = 330) -> alt.LayerChart:
    """Draw accuracy, or gain, against level with bands; controls grey, published curves dashed."""
    rows = [_curve_row(point) for point in table.points if point.value is not None]
    names = list(dict.fromkeys(row["estimator"] for row in rows))
    controls = {row["estimator"] for row in rows if row["control"]}
    others = [name for name in names if name not in controls]
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(others)}
    scale = alt.Scale(domain=names, range=[colours.get(name, CONTROL) for name in names])
    axis = "kept, 1 - t" if table.kept else "removed, t"
    label = f"format({'1 - ' if table.kept else ''}datum.value, '.2~f')"
    levels = sorted({row["t"] for row in rows})
    ticks = levels if len(levels) <= _TICKS else [0, 0.25, 0.5, 0.75, 1]
    legend = alt.Legend(orient="bottom", columns=2, symbolOpacity=1)  # two fit a phone
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("t:Q", title=axis, axis=alt.Axis(values=ticks, labelExpr=label), scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("estimator:N", scale=scale, title=None, legend=legend),
        tooltip=[
            _tip("estimator"),
            _tip("source"),
            _tip("t", ".1f"),
            *(_tip(key, "+.1f" if table.gains else ".3f") for key in _BAND),
        ],
    )
    bounds = alt.Scale(domain=[0, 1]) if table.quantity == ACCURACY else alt.Scale()
    y = alt.Y("value:Q", title=table.quantity, scale=bounds)
    free = cycle(_OTHERS)
    marks = {name: _SHAPES.get(name) or next(free) for name in names}
    shape = alt.Shape(  # of points alone: a line with shapes would mark its band
        "estimator:N", scale=alt.Scale(domain=names, range=[marks[name] for name in names]), title=None
    )
    kinds = alt.Scale(domain=["measured", "published"], range=[[1, 0], [4, 3]])
    lines = base.mark_line(size=2).encode(y=y, strokeDash=alt.StrokeDash("source:N", scale=kinds, legend=None))
    bands = base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=table.quantity), y2="high:Q")
    points = base.mark_point(size=40, filled=True, opacity=1).encode(y=y, shape=shape)
    return _sized(alt.layer(bands, lines, points), width, 260)


_BAND = ("value", "low", "high")


def _curve_row(point: CurvePoint) -> dict[str, Any]:
    return {
        "estimator": plain(point.estimator, 40),
        "control": point.control,
        "source": point.source,
        "t": point.t,
        "value": point.value,
        "low": point.low,
        "high": point.high,
    }


def comparison_chart(pair: PairComparison, width: int = 460) -> alt.LayerChart:
    """Draw the difference of accuracy, or of gain, per level with its interval."""
    rows = [{"t": f"{level.t:g}", **level.difference._asdict()} for level in pair.levels]
    title = pair.heading
    base = alt.Chart(_data(rows)).encode(x=alt.X("t:N", title="removed, t", axis=alt.Axis(labelAngle=0)))
    bars = base.mark_rule(size=3, color=COLOURS[0], opacity=0.7).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    points = base.mark_point(filled=True, size=70, color=COLOURS[0], opacity=1).encode(
        y=alt.Y("value:Q", title=title), tooltip=[_tip("t"), *(_tip(key, "+.1f") for key in _ESTIMATE)]
    )
    zero = alt.Chart(_data([{"y": 0}])).mark_rule(color=CONTROL).encode(y="y:Q")
    return _sized(alt.layer(zero, bars, points), width, 240)


_NEAR, _FACTOR = 0.03, 1.25  # share of the gains' range, and ratio of costs, within which names would overlap
_ESTIMATE = ("value", "low", "high")


def cost_chart(table: BoardTable, width: int = 560) -> alt.LayerChart:
    """Draw gain against seconds per 1,000 images, with the frontier as steps."""
    priced = [row for row in table.rows if row.seconds and row.gain.value is not None]
    best = {row.estimator for row in frontier(priced)}
    names = _labels(priced)
    rows = [
        {
            **_gain_row(row),
            "seconds": row.seconds,
            "best": row.estimator in best,
            "name": names[row.estimator],
        }
        for row in priced
    ]
    x = alt.X("seconds:Q", scale=alt.Scale(type="log"), title="processor seconds for the maps of 1,000 images")
    title = SHOWN[table.protocol].gain_axis
    tips = [_tip("estimator"), _tip("seconds", ".3g"), _tip("gain", "+.1f")]
    base = alt.Chart(_data(rows)).encode(x=x, y=alt.Y("gain:Q", title=title), tooltip=tips)
    bars = base.mark_rule(opacity=0.4, color=COLOURS[0]).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    points = base.mark_point(filled=True, size=60, opacity=1, color=COLOURS[0])
    labels = base.mark_text(align="left", dx=7, dy=-6, color=CONTROL).encode(text="name:N")
    steps = base.transform_filter("datum.best").mark_line(interpolate="step-after", color=COLOURS[1], size=1.5)
    return _sized(alt.layer(steps, bars, points, labels), width, 340)


def _labels(rows: Sequence[BoardRow]) -> dict[str, str]:
    """Return what stands beside each point; of points that lie together the first has the names of all."""
    gains = [row.gain.value or 0.0 for row in rows]
    near = _NEAR * max(1.0, max(gains, default=0.0) - min(gains, default=0.0))
    found: dict[str, list[BoardRow]] = {}
    for row, gain in zip(rows, gains, strict=True):
        beside = (
            first
            for first, *_ in found.values()
            if abs((first.gain.value or 0.0) - gain) < near
            and 1 / _FACTOR < (first.seconds or 0.0) / (row.seconds or 1.0) < _FACTOR
        )
        first = next(beside, row)
        found.setdefault(first.estimator, []).append(row)
    together = {name: ", ".join(plain(row.estimator, 30) for row in members) for name, members in found.items()}
    return {row.estimator: together.get(row.estimator, "") for row in rows}


def frontier(rows: list[BoardRow]) -> list[BoardRow]:
    """Return the rows that none beats at the same or a smaller cost, cheapest first."""
    best: list[BoardRow] = []
    for row in sorted(rows, key=lambda row: (row.seconds, -(row.gain.value or 0.0))):
        if not best or (row.gain.value or 0.0) > (best[-1].gain.value or 0.0):
            best.append(row)
    return best


def _tip(field: str, number: str = "") -> alt.Tooltip:
    """Return what a mark shows under the pointer: a text, or a number in this format."""
    return alt.Tooltip(f"{field}:Q", format=number) if number else alt.Tooltip(f"{field}:N")


def _data(rows: list[dict[str, Any]]) -> alt.InlineData:
    return alt.InlineData(values=rows)


def _sized(chart: Any, width: int, height: int) -> alt.LayerChart:
    sized: alt.LayerChart = chart.properties(width=width, height=height)
    return sized


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


# half of a drawing says what renderers assume anyway
_TAG = re.compile(r"<[^>]+>")
_DEFAULTS = re.compile(r' (?:class|role|aria-[a-z]+|pointer-events)="[^"]*"| opacity="1"')
_PLACES = re.compile(r' (?:d|transform)="[^"]*"')
_FINE = re.compile(r"(\.\d)\d+")  # a tenth of a pixel is enough
_EMPTY = re.compile(r'<path d="[^"]*" display="none"/>|<path d="M0,0h0v0h0Z"/>')


def to_svg(chart: alt.LayerChart) -> str:
    """Return a chart as an SVG element that fits the width it is given; nothing is fetched."""
    drawn: str = vl_convert.vegalite_to_svg({**chart.to_dict(), "config": _CONFIG}, allowed_base_urls=[])
    lean = _EMPTY.sub("", _TAG.sub(_lean, drawn))
    return lean.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _lean(tag: re.Match[str]) -> str:
    return _PLACES.sub(lambda where: _FINE.sub(r"\1", where[0]), _DEFAULTS.sub("", tag[0]))
