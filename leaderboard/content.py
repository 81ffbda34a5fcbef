"""What pages say beside tables of statistics: the same for the app and for the static pages."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from leaderboard.curves import CurveTable
from leaderboard.figures import frontier
from leaderboard.shown import SuiteShown
from leaderboard.tables import BoardTable, Entry
from leaderboard.words import plain, signed
from roarbench.claims_report import claim_records
from roarbench.estimators import CONTROLS
from roarbench.tables import interval
from roarbench.validity_tables import sections


def span(entry: Entry) -> str:
    """A place interval such as 2-4; empty where there is none."""
    position = entry.place
    if position is None:
        return ""
    low, high = position.low or position.place, position.high or position.place
    return str(low) if low == high else f"{low}-{high}"


def figure_words(table: CurveTable) -> str:
    """What a figure of curves shows, for those who do not see it."""
    ends = {point.estimator: point for point in table.points if point.accuracy is not None and point.t > 0}
    last = [f"{plain(name, 40)} {100 * (point.accuracy or 0):.1f}%" for name, point in ends.items()]
    at = f" At t = {max(point.t for point in ends.values()):g}: {', '.join(last)}." if ends else ""
    return f"{table.title}: test accuracy against the fraction removed. {table.caption}{at}"


class Cost(NamedTuple):
    """What gain costs: the points, and the frontier in words."""

    points: list[dict[str, Any]]
    words: str


def cost_points(table: BoardTable) -> Cost:
    """The rows whose cost is known, cheapest first."""
    priced = [entry for entry in table.entries if entry.seconds and entry.gain.value is not None]
    best = frontier(priced)
    points = [
        {
            "estimator": plain(entry.estimator),
            "seconds_per_1000_images": entry.seconds,
            "gain": entry.gain.value,
            "gain_low": entry.gain.low,
            "gain_high": entry.gain.high,
            "on_frontier": entry in best,
        }
        for entry in sorted(priced, key=lambda entry: entry.seconds or 0.0)
    ]
    words = ", ".join(f"{plain(e.estimator, 40)} ({e.seconds:.3g} s, {signed(e.gain.value or 0)} points)" for e in best)
    return Cost(points, f"None is better at the same or a smaller cost than: {words}.")


def claims(suites: Sequence[SuiteShown]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The claims on the paper's numbers, then on every suite that has a cell of any."""
    published = [_claim(row, "published") for row in claim_records(None)]
    own = [
        (f"On {shown.held.title}", [_claim(row, "ours") for row in claim_records(shown.held, shown.unit)])
        for shown in suites
    ]
    told = [(caption, rows) for caption, rows in own if any(row["cells that agree"] for row in rows)]
    return [("On the paper's own table", published), *told]


def _claim(row: dict[str, Any], table: str) -> dict[str, Any]:
    finding = row[table]
    exceptions = [*finding["exceptions"][:3]]
    more = len(finding["exceptions"]) - len(exceptions)
    text = ", ".join(exceptions) + (f" and {more} more" if more else "")
    agree = f"{finding['agree']} of {finding['cells']}" if finding["cells"] else None
    return {
        "claim": row["text"],
        "where": row["where"],
        "verdict": str(finding["verdict"]),
        "cells that agree": agree,
        "exceptions": text,
    }


def entry_boards(suites: Sequence[SuiteShown], name: str) -> list[dict[str, Any]]:
    """An estimator's row in each suite that has it."""
    return [
        {
            "suite": shown.held.title,
            "place": span(row),
            "gain": interval(row.gain),
            "vs Random": row.random,
            "vs Sobel": row.sobel,
            "KAR gain": interval(row.kar),
            "no-retrain gain": interval(row.unretrained),
            "seeds": row.seeds,
        }
        for shown in suites
        for row in shown.table.entries
        if row.estimator == name
    ]


def validity(shown: SuiteShown, name: str) -> list[tuple[str, list[dict[str, str]]]]:
    """The validity panel of one estimator beside the controls'."""
    wanted = {name, *CONTROLS}
    parts = [
        (part.title, [dict(zip(part.columns, line, strict=True)) for line in part.lines if line[0] in wanted])
        for part in sections(shown.panel)
    ]
    return [(title, rows) for title, rows in parts if rows]
