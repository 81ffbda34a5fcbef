"""What pages say beside tables of statistics: the same for the app and for the static pages."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from leaderboard.charts import frontier
from leaderboard.curves import CurveTable
from leaderboard.downloads import span
from leaderboard.rows import SORTS, BoardTable, Entry, beside
from leaderboard.snapshot import SuiteShown
from leaderboard.text import HEADINGS, plain, signed
from roarbench.analysis.boards import SuiteResults
from roarbench.estimators import CONTROLS
from roarbench.report.claims import claim_records
from roarbench.report.validity import sections
from roarbench.text import MISSING, interval


def figure_words(table: CurveTable) -> str:
    """What a figure of curves shows, for those who do not see it."""
    points = [point for point in table.points if point.accuracy is not None and 0 < point.t < 1]
    ends = {(point.source == "published", point.estimator): point for point in points}
    last = [
        f"{plain(name, 40)}{' published' if laid else ''} {100 * (point.accuracy or 0):.1f}%"
        for (laid, name), point in ends.items()
    ]
    at = f" At t = {max(point.t for point in ends.values()):g}: {', '.join(last)}." if ends else ""
    return f"{table.title}: test accuracy against the fraction removed. {table.caption}{at}"


class Cost(NamedTuple):
    """What gain costs.

    Attributes:
        points: As flat records.
        rows: The same to be read.
        words: The frontier, and of what the cost is not known.
    """

    points: list[dict[str, Any]]
    rows: list[dict[str, Any]]
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
    rows = [
        {
            "estimator": plain(entry.estimator),
            HEADINGS["seconds"]: f"{entry.seconds:.3g}",
            "gain": interval(entry.gain),
            "on the frontier": entry in best,
        }
        for entry in sorted(priced, key=lambda entry: entry.seconds or 0.0)
    ]
    words = ", ".join(f"{plain(e.estimator, 40)} ({e.seconds:.3g} s, {signed(e.gain.value or 0)} points)" for e in best)
    absent = [plain(entry.estimator, 40) for entry in table.entries if entry not in priced]
    unknown = f" Without gain or known cost: {', '.join(absent)}." if absent else ""
    return Cost(points, rows, f"None is better at the same or a smaller cost than: {words}.{unknown}")


class Held(NamedTuple):
    """The claims on one table of numbers.

    Attributes:
        title: Whose numbers.
        caption: Of what they are.
        rows: Claims with verdicts, as flat records.
    """

    title: str
    caption: str
    rows: list[dict[str, Any]]


def claims(suites: Sequence[SuiteShown]) -> list[Held]:
    """The claims on the paper's numbers, then on every suite that has a cell of any."""
    published = [_claim(row, "published") for row in claim_records(None)]
    own = [
        Held(
            f"On {shown.held.title}",
            f"Mean test accuracies: {shown.table.caption}",
            [_claim(row, "ours") for row in claim_records(shown.held, shown.unit)],
        )
        for shown in suites
    ]
    told = [held for held in own if any(row["cells that agree"] for row in held.rows)]
    return [Held("On the paper's own table", _PAPERS_TABLE, published), *told]


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
    return {
        "verdict": str(finding["verdict"]),
        "claim": row["text"],
        "cells that agree": agree,
        "exceptions": text,
        "where": row["where"],
    }


class Sorted(NamedTuple):
    """A column's heading.

    Attributes:
        now: How the rows are sorted by it, `ascending` or `descending`; empty where they are not.
        link: To the rows sorted by it; empty where a script sorts.
    """

    now: str = ""
    link: str = ""


def legend(table: BoardTable) -> str:
    """What a board's numbers are."""
    if not table.gained:
        return f"Test accuracy of networks that see only where features were removed, at each level t. {_DOUBT}"
    return f"Gain over Random in accuracy points, with its interval. {_DOUBT}"


def strokes(table: BoardTable) -> str:
    """What the lines of a board's bars are."""
    kinds = {"sobel": "the dashed line Sobel", "random-blurred": "the dotted line the blurred random map"}
    return ", ".join(["the line at 0 is Random", *(kinds[name] for name in table.lines)])


def without(table: BoardTable) -> list[str]:
    """The columns that say nothing of any row: a suite need not have all protocols and checks."""
    optional = ("sobel", "blurred", "kar", "no-retrain", "twin", "masks", "seconds")
    return [key for key in optional if all(SORTS[key](entry) is None for entry in table.entries)]


_DOUBT = "(!) and numbers in bold: a reason to doubt the row, which its page gives in full."


def status(entry: Entry, held: SuiteResults) -> str:
    """Who vouches for a row, and that its data set was made small if it was; empty where there is no run."""
    small = f", small version: {held.limit} images a split" if held.limit else ""
    return entry.status and entry.status + small


def entry_boards(suites: Sequence[SuiteShown], name: str) -> list[dict[str, Any]]:
    """An estimator's row in each suite that has it."""
    return [
        {
            "suite": shown.held.title,
            "place": span(row.place),
            "gain": interval(row.gain),
            "vs Random": row.random,
            "vs Sobel": row.sobel,
            "vs Random blurred": row.blurred,
            "KAR gain": interval(row.kar),
            "no-retrain gain": interval(row.unretrained),
            "seeds": row.seeds,
            "status": status(row, shown.held),
            "numbers are of": f"{shown.table.caption}. {beside(shown.held, shown.table.unit, shown.table.levels)}",
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
    told = [(title, rows, [cell for row in rows for cell in list(row.values())[1:]]) for title, rows in parts]
    return [(title, rows) for title, rows, cells in told if set(cells) - {MISSING}]
