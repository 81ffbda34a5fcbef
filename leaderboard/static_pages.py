"""What goes into the templates of the static pages, beside what both boards say."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any, NamedTuple

from leaderboard import charts, pages
from leaderboard.charts import to_svg
from leaderboard.compare import Duel, duel_records
from leaderboard.curves import PUBLISHED, CurveTable, curve_records, curve_tables, toy_tables
from leaderboard.downloads import DECIMALS, header_fields
from leaderboard.entry import HOOKER, command, runs_of, shared
from leaderboard.gallery import Bytes, Strip, degraded, heat, original
from leaderboard.pages import legend, strokes, without
from leaderboard.rows import BoardTable, Entry
from leaderboard.snapshot import SuiteShown
from leaderboard.source import protocols, units
from leaderboard.text import ABOUT, CHANGES, EMPTY, LIMITS, PROTOCOLS, SUBMIT, damaged_rankings, plain, protocol_name
from roarbench.estimators import CONTROLS
from roarbench.report.validity import legend as panel_legend
from roarbench.stats.bootstrap import Estimate


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
    lines: dict[str, float]


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
    lines = {name: on.share(gain) for name, gain in table.lines.items()}
    return Bar(left, round(right - left, 2), on.share(value), on.share(0.0), lines)


class Choice(NamedTuple):
    """A board that a reader can choose: over all its levels, or over the one that `level` names."""

    table: BoardTable
    level: str = ""


def boards(shown: SuiteShown) -> list[Choice]:
    """The board that is shown first, then each protocol and unit over all its levels and over every single one."""
    kinds = [(protocol, unit) for protocol in protocols(shown.held) for unit in units(shown.held, protocol)]
    kinds.sort(key=lambda kind: kind != (shown.protocol, shown.unit))
    choices: list[Choice] = []
    for protocol, unit in kinds:
        whole = shown.board(protocol, unit, ()) if choices else shown.table
        alone = whole.levels if len(whole.levels) > 1 else ()
        choices += [Choice(whole), *(Choice(shown.board(protocol, unit, (t,)), f"{t:g}") for t in alone)]
    return choices


def board_page(shown: SuiteShown) -> dict[str, Any]:
    """What the template of a board takes: the rows of the first board, and all boards as data to choose from."""
    choices = boards(shown)
    table = choices[0].table
    entries = {entry.estimator: entry for choice in reversed(choices) for entry in choice.table.entries}
    first = [entry.estimator for entry in table.entries]
    names = [*first, *(name for name in entries if name not in first)]
    on = scale(table)
    wholes = [choice.table for choice in choices if not choice.level]
    return {
        "table": table,
        "tables": wholes,
        "families": ["control", *dict.fromkeys(e.family for e in entries.values() if not e.control)],
        "rows": [(entries[name], bar(entries[name], table, on), name in first) for name in names],
        "small": shown.held.limit,
        "boards": [_data(shown, choice, names) for choice in choices],
        "protocols": list(dict.fromkeys(choice.table.protocol for choice in choices)),
        "units": list(dict.fromkeys(str(choice.table.unit) for choice in choices)),
        "levels": [f"{t:g}" for t in sorted({t for choice in choices for t in choice.table.levels})],
    }


def _data(shown: SuiteShown, choice: Choice, names: Iterable[str]) -> dict[str, Any]:
    table = choice.table
    entries = {entry.estimator: {"at": at, **_packed(entry, table)} for at, entry in enumerate(table.entries)}
    return {
        **header_fields(table),
        "about": PROTOCOLS[table.protocol],
        "called": protocol_name(table.protocol),
        "without": without(table),
        "level": choice.level,
        "legend": f"{legend(table)} In the bars {strokes(table)}." if table.gained else legend(table),
        "gained": table.gained,
        "scale": [round(end, DECIMALS) for end in scale(table)],
        "lines": table.lines,
        "rows": [entries.get(name) for name in names],
    }


def _packed(entry: Entry, table: BoardTable) -> dict[str, Any]:
    """What differs from board to board in one row."""
    return {
        "gain": rounded(entry.gain),
        "accuracies": [] if table.gained else [rounded(accuracy) for accuracy in entry.accuracies],
        "kar": rounded(entry.kar),
        "unretrained": rounded(entry.unretrained),
        "random": entry.random,
        "sobel": entry.sobel,
        "blurred": entry.blurred,
        "groups": list(entry.place.groups) if entry.place else None,
        "seeds": entry.seeds,
        "date": entry.date,
        "status": entry.status,
        "gap": entry.gap,
    }


def rounded(found: Estimate) -> list[float | None]:
    """Value and ends as the files of a board have them, so that what a page computes is what they say."""
    return [None if value is None else round(value, DECIMALS) for value in found]


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
    return [(to_svg(charts.curve_chart(table)), pages.figure_words(table)) for table in tables]


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
        (number, save(original(strip, i)), [_column(strip, name, i, levels, save) for name in names])
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
    left = [(f"{t:g}", save(degraded(strip, name, image, t))) for t in levels]
    return name, save(heat(strip, name, image)), left


def cost(shown: SuiteShown) -> dict[str, Any]:
    """Gain against cost."""
    table = shown.table
    points, rows, words = pages.cost_points(table)
    return {
        "table": table,
        "svg": to_svg(charts.cost_chart(table)) if points else "",
        "words": f"Gain against cost. {words}",
        "points": points,
        "rows": rows,
    }


def entry(suites: Sequence[SuiteShown], name: str, save: Save) -> dict[str, Any]:
    """All that a page says of one estimator."""
    found = [(shown, row) for shown in suites for row in shown.table.entries if row.estimator == name]
    return {
        "boards": pages.entry_boards(suites, name),
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
        "validity": pages.validity(shown, row.estimator),
        "legend": panel_legend(shown.panel),
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
    rows = [("untouched", [(save(original(strip, i)), f"Test image {n}") for i, n in numbers])]
    for who in shown:
        label = plain(who)
        maps = [(save(heat(strip, who, i)), f"Map of {label} on image {n}") for i, n in numbers]
        rows.append((f"map, {label}", maps))
    for t in levels:
        left = [(save(degraded(strip, name, i, t)), f"Test image {n}, what is left at t = {t:g}") for i, n in numbers]
        rows.append((f"left at t = {t:g}, {plain(name)}", left))
    return rows


def about() -> dict[str, Any]:
    """The texts, with the toy's figure."""
    toy = [(to_svg(charts.curve_chart(table, 300)), pages.figure_words(table)) for table in toy_tables()]
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
