"""What pages of the app and of the static board say in the same words: captions, costs, claims and legends."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from leaderboard.boards import other_gains_note
from leaderboard.charts import frontier
from leaderboard.curves import CurvePoint, CurveTable
from leaderboard.filters import SORTS
from leaderboard.rows import BoardRow, BoardTable
from leaderboard.snapshot import SuiteView
from leaderboard.text import HEADINGS, capital, plain
from roarbench.analysis.boards import SuiteResults
from roarbench.estimators import CONTROLS
from roarbench.protocols import SHOWN
from roarbench.report.claim_table import claim_records
from roarbench.report.validity_panel import sections
from roarbench.stats.bootstrap import Estimate
from roarbench.terms import Order, Retrain
from roarbench.text import MISSING, interval, place_interval, signed


def figure_words(table: CurveTable) -> str:
    """Return what a figure of curves shows, for those who do not see it."""
    points = [point for point in table.points if point.value is not None and 0 < point.t < 1]
    ends = {(point.source == "published", point.estimator): point for point in points}
    last = [f"{_named(point)} {_point(table, point.value)}" for point in ends.values()]
    at = f" At t = {max(point.t for point in ends.values()):g}: {', '.join(last)}." if ends else ""
    return f"{table.title}: {_quantity(table)} against the fraction removed. {curve_caption(table)}{at}"


def curve_caption(table: CurveTable) -> str:
    """Return of what the curves of a figure are, and what their bands are."""
    return f"{table.caption}. Bands: {table.bands}." if table.bands else f"{table.caption}."


def level_words(table: CurveTable) -> str:
    """Return the points of a protocol with a single level, which has no curve, as a sentence."""
    points = [point for point in table.points if point.value is not None and point.t > 0]
    shown = [
        f"{_named(point)} {interval(Estimate(point.value, point.low, point.high), partial(_point, table))}"
        for point in points
    ]
    brackets = f" In brackets {table.bands}." if table.bands else ""
    at = f"{_quantity(table)} at t = {table.levels[0]:g}, the only level"
    return f"{table.title}: {at}: {', '.join(shown)}. {table.caption}.{brackets}"


def _quantity(table: CurveTable) -> str:
    return table.quantity.replace(", points", " in points")


def _named(point: CurvePoint) -> str:
    return f"{plain(point.estimator, 40)}{' published' if point.source == 'published' else ''}"


def _point(table: CurveTable, value: float | None) -> str:
    return signed(value or 0) if table.gains else f"{100 * (value or 0):.1f}%"


def better_words(tables: Iterable[CurveTable]) -> str:
    """Return which way curves are better, for the protocols of these tables."""
    asked = [SHOWN[name] for name in dict.fromkeys(table.protocol for table in tables)]
    sides = {
        "Larger gains are better": [p for p in asked if p.retrain is Retrain.COMMON],
        "Lower accuracy is better": [p for p in asked if p.retrain is not Retrain.COMMON and p.order is Order.MORF],
        "Higher accuracy is better": [p for p in asked if p.retrain is not Retrain.COMMON and p.order is Order.LERF],
    }
    named = {better: [p.title for p in found] for better, found in sides.items()}
    return " ".join(f"{better} under {' and '.join(names)}." for better, names in named.items() if names)


class CostTable(NamedTuple):
    """Gains with the cost of the maps.

    Attributes:
        points: As flat records, cheapest first.
        rows: The same as text.
        summary: The frontier, and the rows without gain or known cost.
    """

    points: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    summary: str


def cost_table(table: BoardTable) -> CostTable:
    """Return the rows of a board whose cost is known, cheapest first."""
    priced = [row for row in table.rows if row.seconds and row.gain.value is not None]
    best = frontier(priced)
    points = [
        {
            "estimator": plain(row.estimator),
            "seconds_per_1000_images": row.seconds,
            "gain": row.gain.value,
            "gain_low": row.gain.low,
            "gain_high": row.gain.high,
            "on_frontier": row in best,
        }
        for row in sorted(priced, key=lambda row: row.seconds or 0.0)
    ]
    rows = [
        {
            "estimator": plain(row.estimator),
            HEADINGS["seconds"]: f"{row.seconds:.3g}",
            "gain": interval(row.gain),
            "on the frontier": row in best,
        }
        for row in sorted(priced, key=lambda row: row.seconds or 0.0)
    ]
    names = ", ".join(f"{plain(e.estimator, 40)} ({e.seconds:.3g} s, {signed(e.gain.value or 0)} points)" for e in best)
    absent = [plain(row.estimator, 40) for row in table.rows if row not in priced]
    unknown = f" Without gain or known cost: {', '.join(absent)}." if absent else ""
    return CostTable(
        points,
        rows,
        f"{gain_title(table)} against cost. None is better at the same or a smaller cost than: {names}.{unknown}",
    )


class ClaimTable(NamedTuple):
    """The paper's claims tested on one table of numbers.

    Attributes:
        title: Whose numbers.
        caption: Of what they are.
        rows: Claims with verdicts, as flat records.
    """

    title: str
    caption: str
    rows: list[dict[str, Any]]


def claims(views: Sequence[SuiteView]) -> list[ClaimTable]:
    """Return the claims on the paper's numbers, then on every suite that has a cell of any."""
    published = [_claim(row, "published") for row in claim_records(None)]
    own = [
        ClaimTable(
            f"On {view.suite_results.title}",
            f"Mean test accuracies: {view.roar_caption}",
            [_claim(row, "ours") for row in view.claims],
        )
        for view in views
    ]
    tested = [each for each in own if any(row["cells that agree"] for row in each.rows)]
    return [ClaimTable("On the paper's own table", _PAPERS_TABLE, published), *tested]


_PAPERS_TABLE = (
    "Mean test accuracies of five trainings of ResNet-50 on ImageNet, Food-101 and Birdsnap (50,000, 25,250 and 2,443 "
    "test images); levels 0.1, 0.3, 0.5, 0.7, 0.9; unit scalar; fill mean (supplement, Table 2)"
)


def _claim(row: dict[str, Any], table: str) -> dict[str, Any]:
    finding = row[table]
    exceptions = [*finding["exceptions"][:3]]
    more = len(finding["exceptions"]) - len(exceptions)
    text = ", ".join(exceptions) + (f" and {more} more" if more else "")
    agree = f"{finding['agree']} of {finding['cells']}" if finding["cells"] else None
    settled = finding.get("significant")
    return {
        "verdict": str(finding["verdict"]),
        "claim": row["text"],
        "cells that agree": agree,
        "significantly": settled and f"{settled['agree']} for it, {settled['differ']} against",
        "exceptions": text,
        "where": row["where"],
    }


class ColumnSort(NamedTuple):
    """Order that a column's heading asks for.

    Attributes:
        now: How the rows are sorted by it, `ascending` or `descending`; empty where they are not.
        link: To the rows sorted by it; empty where a script sorts.
    """

    now: str = ""
    link: str = ""


def legend(table: BoardTable) -> str:
    """Return what a board's numbers are."""
    doubt = f" {_DOUBT}" if table.marked else ""
    if not table.gained:
        return f"Test accuracy of networks that see only where features were removed, at each level t.{doubt}"
    return f"{gain_title(table)} in accuracy points, with its interval.{doubt}"


def gain_title(table: BoardTable) -> str:
    """Return what the gain of a board is called, with a capital."""
    return capital(SHOWN[table.protocol].gain)


def bar_lines(table: BoardTable) -> str:
    """Return what the lines of a board's bars are."""
    kinds = {"sobel": "the dashed line Sobel", "random-blurred": "the dotted line the blurred random map"}
    zero = SHOWN[table.protocol].zero
    return ", ".join([f"the line at 0 is {zero}", *(kinds[name] for name in table.lines)])


def empty_columns(table: BoardTable) -> list[str]:
    """Return the columns that are empty in every row: a suite need not have all protocols and checks."""
    optional = ("beats", "sobel", "blurred", "kar", "no-retrain", "other-image", "twin", "masks", "above", "seconds")
    return [key for key in optional if all(SORTS[key](row) is None for row in table.rows)]


_DOUBT = "(!) and numbers in bold: a reason to doubt the row, which its page gives in full; (!!) a strong one."


def status(row: BoardRow, suite_results: SuiteResults) -> str:
    """Return who vouches for a row, and that its data set was made small if it was; empty where there is no run."""
    small = f", small version: {suite_results.limit} images a split" if suite_results.limit else ""
    return row.status and row.status + small


_OPTIONAL = (
    "beats controls",
    "vs Sobel",
    "vs Random blurred",
    "over other image",
    "vs other image",
    "KAR gain",
    "no-retrain gain",
)


def entry_boards(views: Sequence[SuiteView], name: str) -> list[dict[str, Any]]:
    """Return an estimator's row on the leading boards of each suite that has it, without columns that are all empty."""
    rows = [
        _entry_board(view, table, row)
        for view in views
        for table in view.leading
        for row in table.rows
        if row.estimator == name
    ]
    empty = {key for key in _OPTIONAL if all(row[key] in ("", MISSING) for row in rows)}
    return [{key: value for key, value in row.items() if key not in empty} for row in rows]


def _entry_board(view: SuiteView, table: BoardTable, row: BoardRow) -> dict[str, Any]:
    note = other_gains_note(view.suite_results, table.unit, table.levels)
    return {
        "suite": view.suite_results.title,
        "protocol": SHOWN[table.protocol].title,
        "place": place_interval(row.place) if row.place else "",
        "gain": interval(row.gain),
        "beats controls": row.beats,
        "vs Random": row.random,
        "vs Sobel": row.sobel,
        "vs Random blurred": row.blurred,
        "over other image": interval(row.other_image),
        "vs other image": row.vs_other_image,
        "KAR gain": interval(row.kar),
        "no-retrain gain": interval(row.unretrained),
        "seeds": row.seeds,
        "status": status(row, view.suite_results),
        "numbers are of": f"{table.caption}. {note}",
    }


def validity(view: SuiteView, name: str) -> list[tuple[str, list[dict[str, str]]]]:
    """Return the validity panel of one estimator and of the controls."""
    wanted = {name, *CONTROLS}
    parts = [
        (part.title, [dict(zip(part.columns, line, strict=True)) for line in part.lines if line[0] in wanted])
        for part in sections(view.panel)
    ]
    tables = [(title, rows, [cell for row in rows for cell in list(row.values())[1:]]) for title, rows in parts]
    return [(title, rows) for title, rows, cells in tables if set(cells) - {MISSING}]
