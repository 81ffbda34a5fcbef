"""What goes into the templates of the static pages, beside `content`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any, NamedTuple

from leaderboard import content, figures, pictures
from leaderboard.curves import PUBLISHED, CurveTable, curve_records, curve_tables
from leaderboard.duel import Duel, duel_records
from leaderboard.entries import command, runs_of, shared
from leaderboard.papers import HOOKER
from leaderboard.shown import SuiteShown
from leaderboard.site_boards import rounded
from leaderboard.strip import Bytes, Strip
from leaderboard.svg import to_svg
from leaderboard.tables import Entry
from leaderboard.toyfigure import toy_tables
from leaderboard.words import ABOUT, CHANGES, EMPTY, LIMITS, PROTOCOLS, SUBMIT, damaged_rankings, plain
from roarbench.estimators import CONTROLS
from roarbench.report.validity import legend

PAIRED = 12  # rows whose pairs a static page holds: 66


class Family(NamedTuple):
    """Curves of one family of estimators.

    Attributes:
        name: The base that they are built on.
        figures: SVG and words, one for each protocol.
        laid: The same with the paper's curves over them, by the paper's data set; only protocols that it has.
    """

    name: str
    figures: list[tuple[str, str]]
    laid: dict[str, list[tuple[str, str]]]


def curves(shown: SuiteShown) -> dict[str, Any]:
    """One row of figures per family, with the controls in each."""
    by_family: dict[str, list[str]] = {}
    for row in shown.table.entries:
        if row.estimator not in CONTROLS:
            by_family.setdefault(row.family, []).append(row.estimator)
    drawn, points = [], []
    for family, names in by_family.items():
        tables = curve_tables(shown.held, shown.curve_boards, names)
        laid = {dataset: _laid(shown, names, dataset) for dataset in PUBLISHED}
        drawn.append(
            Family(plain(family), _drawn(tables), {dataset: _drawn(over) for dataset, over in laid.items() if over})
        )
        points += [row for row in curve_records([*tables, *(t for over in laid.values() for t in over)])]
    told = {tuple(row.items()): row for row in points}  # the controls are in every family
    return {"families": drawn, "points": list(told.values()), "published": PUBLISHED}


def _laid(shown: SuiteShown, names: list[str], dataset: str) -> list[CurveTable]:
    """The curves with the paper's over them; none if the paper has none of these estimators."""
    tables = curve_tables(shown.held, shown.curve_boards, names, dataset)
    return [table for table in tables if any(p.source == "published" and not p.control for p in table.points)]


def _drawn(tables: Iterable[CurveTable]) -> list[tuple[str, str]]:
    return [(to_svg(figures.curve_chart(table)), content.figure_words(table)) for table in tables]


def compare(shown: SuiteShown) -> dict[str, Any]:
    """All pairs of the best rows and the controls."""
    entries = shown.table.entries
    names = [entry.estimator for i, entry in enumerate(entries) if i < PAIRED or entry.estimator in CONTROLS]
    duels = [shown.arena.duel(*pair) for pair in combinations(names, 2)] if shown.arena else []
    records = [row for duel in duels for row in duel_records(duel)]
    pairs = [_pair(duel, names) for duel in duels]
    return {"names": names, "duels": duels, "pairs": pairs, "records": records, "cut": len(names) < len(entries)}


def _pair(duel: Duel, names: list[str]) -> dict[str, Any]:
    """A pair as a page's data, its names by number: the page's script shows any of them, from either side."""
    levels = [{**asdict(level), "difference": rounded(level.difference)} for level in duel.levels]
    pair = {"first": names.index(duel.first), "second": names.index(duel.second)}
    return {**pair, "caption": duel.caption, "gain": rounded(duel.gain), "levels": levels}


Save = Callable[[Bytes], str]  # keeps a picture as a file; returns its name


def gallery(shown: SuiteShown, save: Save) -> dict[str, Any]:
    """Pictures, maps and what is left, for all images of the strip."""
    strip, levels = shown.strip, shown.table.levels
    if strip is None:
        return {"images": [], "pictures": [], "damaged": ""}
    names = [entry.estimator for entry in shown.table.entries if entry.estimator in strip.planes]
    images = [
        (number, save(pictures.original(strip, i)), [_column(strip, name, i, levels, save) for name in names])
        for i, number in enumerate(strip.numbers)
    ]
    files = [
        {"test image": number, "estimator": plain(name), "shows": shows, "file": file}
        for number, original, columns in images
        for name, heat, left in columns
        for shows, file in [("untouched", original), ("map", heat), *((f"left at t = {t}", part) for t, part in left)]
    ]
    return {
        "images": images,
        "pictures": files,
        "levels": [f"{t:g}" for t in levels],
        "unit": strip.layout.unit,
        "of": shown.table.caption,
        "damaged": damaged_rankings(strip.damaged) if strip.damaged else "",
    }


def _column(
    strip: Strip, name: str, image: int, levels: Sequence[float], save: Save
) -> tuple[str, str, list[tuple[str, str]]]:
    left = [(f"{t:g}", save(pictures.degraded(strip, name, image, t))) for t in levels]
    return name, save(pictures.heat(strip, name, image)), left


def cost(shown: SuiteShown) -> dict[str, Any]:
    """Gain against cost."""
    table = shown.table
    points, rows, words = content.cost_points(table)
    return {
        "table": table,
        "svg": to_svg(figures.cost_chart(table)) if points else "",
        "words": f"Gain against cost. {words}",
        "points": points,
        "rows": rows,
    }


def entry(suites: Sequence[SuiteShown], name: str, save: Save) -> dict[str, Any]:
    """All that a page says of one estimator."""
    found = [(shown, row) for shown in suites for row in shown.table.entries if row.estimator == name]
    return {
        "boards": content.entry_boards(suites, name),
        "suites_in": [_in_suite(shown, row, save) for shown, row in found],
    }


def _in_suite(shown: SuiteShown, row: Entry, save: Save) -> dict[str, Any]:
    """What one suite says of an estimator."""
    runs = runs_of(shown.held, row.estimator)
    same, each = shared(runs)
    return {
        "title": shown.held.title,
        "caption": shown.table.caption,
        "entry": row,
        "pictures": _strip_rows(shown.strip, row.estimator, shown.table.levels, save),
        "validity": content.validity(shown, row.estimator),
        "legend": legend(shown.panel),
        "command": command(shown.held, row.estimator),
        "same": same,
        "runs": each,
    }


def _strip_rows(
    strip: Strip | None, name: str, levels: Sequence[float], save: Save
) -> list[tuple[str, list[tuple[str, str]]]]:
    """The images, the estimator's maps beside the controls', and what is left at each level: label, files and words."""
    if strip is None or name not in strip.planes:
        return []
    numbers = list(enumerate(strip.numbers))
    shown = dict.fromkeys((name, *(control for control in CONTROLS if control in strip.planes)))
    rows = [("untouched", [(save(pictures.original(strip, i)), f"Test image {n}") for i, n in numbers])]
    for who in shown:
        label = plain(who)
        maps = [(save(pictures.heat(strip, who, i)), f"Map of {label} on image {n}") for i, n in numbers]
        rows.append((f"map, {label}", maps))
    for t in levels:
        left = [
            (save(pictures.degraded(strip, name, i, t)), f"Test image {n}, what is left at t = {t:g}")
            for i, n in numbers
        ]
        rows.append((f"left at t = {t:g}, {plain(name)}", left))
    return rows


def about() -> dict[str, Any]:
    """The texts, with the toy's figure."""
    toy = [(to_svg(figures.curve_chart(table, 300)), content.figure_words(table)) for table in toy_tables()]
    return {
        "about": ABOUT,
        "toy": toy,
        "points": curve_records(toy_tables()),
        "limits": LIMITS,
        "protocols": PROTOCOLS.values(),
        "submit": SUBMIT,
        "cite": HOOKER.bibtex,
        "changes": CHANGES,
    }


def empty() -> dict[str, str]:
    """What to do about an empty store."""
    return {"empty": EMPTY}
