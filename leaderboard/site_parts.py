"""What goes into the templates of the static pages, beside `content`."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

from leaderboard import content, figures, pictures
from leaderboard.curves import curve_records, curve_tables
from leaderboard.duel import duel_records
from leaderboard.entries import command, runs_of
from leaderboard.shown import SuiteShown
from leaderboard.source import known
from leaderboard.strip import Strip
from leaderboard.svg import to_svg
from leaderboard.tables import BoardTable, Entry
from leaderboard.toyfigure import toy_tables
from leaderboard.words import ABOUT, CHANGES, CITE, COLUMNS, EMPTY, LIMITS, PROTOCOLS, SUBMIT, plain
from roarbench.estimators import CONTROLS
from roarbench.tables import MISSING
from roarbench.validity_tables import legend

PAIRED = 20  # rows whose pairs a static page holds: 190
GALLERY_IMAGES = 3
GALLERY_LEVELS = 2


class Scale(NamedTuple):
    """The ends of a common scale, in accuracy points."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Where a value lies, in percent of the width."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)


class Bar(NamedTuple):
    """A gain with its interval, in percent of the width."""

    low: float
    width: float
    value: float
    zero: float
    sobel: float | None


def scale(table: BoardTable) -> Scale:
    """From the lowest to the highest end of any interval, Random's 0 among them."""
    ends = [0.0, *(end for entry in table.entries for end in entry.gain if end is not None)]
    margin = 0.02 * (max(ends) - min(ends)) or 1.0
    return Scale(min(ends) - margin, max(ends) + margin)


def bar(entry: Entry, table: BoardTable, on: Scale) -> Bar | None:
    """The bar of a row; None where there is no gain."""
    value, low, high = entry.gain
    if value is None:
        return None
    left, right = (on.share(end if end is not None else value) for end in (low, high))
    sobel = None if table.sobel is None else on.share(table.sobel)
    return Bar(left, round(right - left, 2), on.share(value), on.share(0.0), sobel)


def cell(value: object) -> str:
    """A value as text: missing is a dash, numbers have as many digits as a reader wants."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return plain(str(value))


def curves(shown: SuiteShown) -> dict[str, Any]:
    """One row of figures per family, with the controls in each."""
    by_family: dict[str, list[str]] = {}
    for row in shown.table.entries:
        if row.estimator not in CONTROLS:
            by_family.setdefault(row.family, []).append(row.estimator)
    drawn, points = [], []
    for family, names in by_family.items():
        tables = curve_tables(shown.held, shown.curve_boards, names)
        drawn.append(
            (plain(family), [(to_svg(figures.curve_chart(table)), content.figure_words(table)) for table in tables])
        )
        points += [row for row in curve_records(tables) if row not in points]
    return {"families": drawn, "points": points}


def compare(shown: SuiteShown) -> dict[str, Any]:
    """All pairs of the best rows and the controls."""
    entries = shown.table.entries
    names = [entry.estimator for i, entry in enumerate(entries) if i < PAIRED or entry.estimator in CONTROLS]
    duels = [shown.arena.duel(*pair) for pair in combinations(names, 2)] if shown.arena else []
    records = [row for duel in duels for row in duel_records(duel)]
    caption = shown.table.caption
    return {"names": names, "duels": duels, "records": records, "caption": caption, "cut": len(names) < len(entries)}


def gallery(shown: SuiteShown) -> dict[str, Any]:
    """Pictures, maps and what is left, for the first images of the strip."""
    strip = shown.strip
    if strip is None:
        return {"images": []}
    levels = shown.table.levels[-GALLERY_LEVELS:]
    names = [entry.estimator for entry in shown.table.entries if entry.estimator in strip.planes]
    images = [
        (number, pictures.data_uri(pictures.original(strip, i)), [_column(strip, name, i, levels) for name in names])
        for i, number in enumerate(strip.numbers[:GALLERY_IMAGES])
    ]
    return {"images": images, "levels": [f"{t:g}" for t in levels], "unit": strip.layout.unit}


def _column(strip: Strip, name: str, image: int, levels: Sequence[float]) -> tuple[str, str, list[tuple[str, str]]]:
    left = [(f"{t:g}", pictures.data_uri(pictures.degraded(strip, name, image, t))) for t in levels]
    return name, pictures.data_uri(pictures.heat(strip, name, image)), left


def cost(shown: SuiteShown) -> dict[str, Any]:
    """Gain against cost."""
    table = shown.table
    points, words = content.cost_points(table)
    return {
        "table": table,
        "svg": to_svg(figures.cost_chart(table)) if points else "",
        "words": f"Gain against cost. {words}",
        "points": points,
    }


def entry(suites: Sequence[SuiteShown], name: str) -> dict[str, Any]:
    """All that a page says of one estimator."""
    found = [(shown, row) for shown in suites for row in shown.table.entries if row.estimator == name]
    return {
        "boards": content.entry_boards(suites, name),
        "suites_in": [entry_suite(shown, row) for shown, row in found],
    }


def entry_suite(shown: SuiteShown, row: Entry) -> dict[str, Any]:
    """What one suite says of an estimator."""
    return {
        "title": shown.held.title,
        "caption": shown.table.caption,
        "entry": row,
        "pictures": _strip_rows(shown.strip, row.estimator, shown.table.levels[-1]),
        "validity": content.validity(shown, row.estimator),
        "legend": legend(shown.panel),
        "command": command(shown.held, row.estimator),
        "runs": runs_of(shown.held, row.estimator),
    }


def _strip_rows(strip: Strip | None, name: str, t: float) -> list[tuple[str, list[tuple[str, str]]]]:
    """The images, the estimator's maps beside the controls', and what is left at the highest level."""
    if strip is None or name not in strip.planes:
        return []
    numbers = list(enumerate(strip.numbers))
    shown = dict.fromkeys((name, *(control for control in CONTROLS if control in strip.planes)))
    rows = [("untouched", [(pictures.data_uri(pictures.original(strip, i)), f"Test image {n}") for i, n in numbers])]
    for who in shown:
        label = plain(who)
        maps = [(pictures.data_uri(pictures.heat(strip, who, i)), f"Map of {label} on image {n}") for i, n in numbers]
        rows.append((f"map, {label}", maps))
    left = [
        (pictures.data_uri(pictures.degraded(strip, name, i, t)), f"Test image {n}, what is left at t = {t:g}")
        for i, n in numbers
    ]
    return [*rows, (f"left at t = {t:g}, {plain(known(name).id)}", left)]


def about() -> dict[str, Any]:
    """The texts, with the toy's figure."""
    toy = [(to_svg(figures.curve_chart(table, 300)), content.figure_words(table)) for table in toy_tables()]
    return {
        "about": ABOUT,
        "toy": toy,
        "limits": LIMITS,
        "protocols": PROTOCOLS.values(),
        "columns": COLUMNS.items(),
        "submit": SUBMIT,
        "cite": CITE,
        "changes": CHANGES,
    }


def empty() -> dict[str, str]:
    """What to do about an empty store."""
    return {"empty": EMPTY}
