"""The fields of the templates of the static pages. A board page has its rows under every protocol, unit and level."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from itertools import combinations
from typing import Any, NamedTuple

from leaderboard import charts, pages
from leaderboard.charts import to_svg
from leaderboard.compare import PairComparison, comparison_records
from leaderboard.curves import (
    POINTS_TABLE,
    PUBLISHED,
    CurveTable,
    above_masks_table,
    curve_records,
    curve_tables,
    toy_tables,
)
from leaderboard.downloads import DECIMALS, header_fields
from leaderboard.entry import command, runs_of, shared
from leaderboard.gallery import Bytes, Gallery, degraded, heat, original
from leaderboard.pages import bar_lines, empty_columns, legend
from leaderboard.papers import HOOKER
from leaderboard.rows import BoardRow, BoardTable
from leaderboard.snapshot import SuiteView
from leaderboard.source import protocols, units
from leaderboard.text import ABOUT, CHANGES, EMPTY, LIMITS, PROTOCOLS, SUBMIT, damaged_rankings, plain, protocol_name
from roarbench.analysis.noisy_copies import kept_words
from roarbench.estimators import CONTROLS
from roarbench.report.validity import legend as panel_legend
from roarbench.stats.bootstrap import Estimate


class BarScale(NamedTuple):
    """The ends of a common scale, in accuracy points."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Return where a value lies, in percent of the width."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)


class GainBar(NamedTuple):
    """A gain with its interval, in percent of the width."""

    low: float
    width: float
    value: float
    zero: float
    lines: dict[str, float]


def scale(table: BoardTable) -> BarScale:
    """Return the scale from the lowest to the highest end of any interval, Random's 0 among them."""
    ends = [0.0, *(end for entry in table.rows for end in entry.gain if end is not None)]
    margin = 0.02 * (max(ends) - min(ends)) or 1.0
    return BarScale(min(ends) - margin, max(ends) + margin)


def bar(entry: BoardRow, table: BoardTable, on: BarScale) -> GainBar | None:
    """Return the bar of a row; None where there is no gain."""
    value, low, high = entry.gain
    if value is None:
        return None
    left, right = (on.share(end if end is not None else value) for end in (low, high))
    lines = {name: on.share(gain) for name, gain in table.lines.items()}
    return GainBar(left, round(right - left, 2), on.share(value), on.share(0.0), lines)


class BoardOption(NamedTuple):
    """A board that a reader can choose: over all its levels, or over the one that `level` names."""

    table: BoardTable
    level: str = ""


def boards(view: SuiteView) -> list[BoardOption]:
    """Return the first board, then each protocol and unit over all its levels and over every single one."""
    kinds = [
        (protocol, unit) for protocol in protocols(view.suite_results) for unit in units(view.suite_results, protocol)
    ]
    kinds.sort(key=lambda kind: kind != (view.protocol, view.unit))
    choices: list[BoardOption] = []
    for protocol, unit in kinds:
        whole = view.board(protocol, unit, ()) if choices else view.table
        alone = whole.levels if len(whole.levels) > 1 else ()
        choices += [BoardOption(whole), *(BoardOption(view.board(protocol, unit, (t,)), f"{t:g}") for t in alone)]
    return choices


def board_page(view: SuiteView) -> dict[str, Any]:
    """Return the fields of a board's page: the rows of the first board, and all boards as data to choose from."""
    choices = boards(view)
    table = choices[0].table
    entries = {entry.estimator: entry for choice in reversed(choices) for entry in choice.table.rows}
    entries |= {name: _with_doubts(entry, choices) for name, entry in entries.items()}
    first = [entry.estimator for entry in table.rows]
    names = [*first, *(name for name in entries if name not in first)]
    on = scale(table)
    wholes = [choice.table for choice in choices if not choice.level]
    return {
        "table": table,
        "tables": wholes,
        "families": ["control", *dict.fromkeys(e.family for e in entries.values() if not e.control)],
        "rows": [(entries[name], bar(entries[name], table, on), name in first) for name in names],
        "small": view.suite_results.limit,
        "boards": [_data(view, choice, names) for choice in choices],
        "protocols": list(dict.fromkeys(choice.table.protocol for choice in choices)),
        "units": list(dict.fromkeys(str(choice.table.unit) for choice in choices)),
        "levels": [f"{t:g}" for t in sorted({t for choice in choices for t in choice.table.levels})],
    }


def _with_doubts(entry: BoardRow, choices: Iterable[BoardOption]) -> BoardRow:
    """Return a row with what speaks against it on the boards that have marks; the others hide it."""
    for choice in choices:
        for row in choice.table.rows if choice.table.marked else ():
            if row.estimator == entry.estimator:
                return replace(entry, flag=row.flag, sign=row.sign, marks=row.marks, above_masks=row.above_masks)
    return entry


def _data(view: SuiteView, choice: BoardOption, names: Iterable[str]) -> dict[str, Any]:
    table = choice.table
    entries = {entry.estimator: {"at": at, **_packed(entry, table)} for at, entry in enumerate(table.rows)}
    return {
        **header_fields(table),
        "about": PROTOCOLS[table.protocol],
        "called": protocol_name(table.protocol),
        "without": empty_columns(table),
        "level": choice.level,
        "legend": f"{legend(table)} In the bars {bar_lines(table)}." if table.gained else legend(table),
        "gained": table.gained,
        "marked": table.marked,
        "scale": [round(end, DECIMALS) for end in scale(table)],
        "lines": table.lines,
        "rows": [entries.get(name) for name in names],
    }


def _packed(entry: BoardRow, table: BoardTable) -> dict[str, Any]:
    """Return what differs from board to board in one row."""
    return {
        "gain": rounded(entry.gain),
        "accuracies": [] if table.gained else [rounded(accuracy) for accuracy in entry.accuracies],
        "kar": rounded(entry.kar),
        "unretrained": rounded(entry.unretrained),
        "random": entry.random,
        "sobel": entry.sobel,
        "blurred": entry.blurred,
        "other": rounded(entry.other_image),
        "vsOther": entry.vs_other_image,
        "groups": list(entry.place.groups) if entry.place else None,
        "seeds": entry.seeds,
        "date": entry.date,
        "status": entry.status,
        "gap": entry.gap,
    }


def rounded(found: Estimate) -> list[float | None]:
    """Return value and ends with the decimals of a board's files, so that a page computes with the same numbers."""
    return [None if value is None else round(value, DECIMALS) for value in found]


PAIRED = 12  # rows whose pairs a static page holds: 66


class FamilyFigures(NamedTuple):
    """Curves of one family of estimators.

    Attributes:
        name: The base that they are built on.
        figures: SVG and words, one for each protocol with several levels.
        sentences: What was measured under protocols with one level.
        overlaid: The figures with the paper's curves added, by the paper's data set; only protocols that it has.
    """

    name: str
    figures: list[tuple[str, str]]
    sentences: list[str]
    overlaid: dict[str, list[tuple[str, str]]]


def curves_page(view: SuiteView) -> dict[str, Any]:
    """Return the fields of the curves page: the figures of each family that has anything, with the controls in each."""
    by_family: dict[str, list[str]] = {}
    for row in view.entries:
        if row.estimator not in CONTROLS:
            by_family.setdefault(row.family, []).append(row.estimator)
    families, all_tables = [], []
    for family, names in by_family.items():
        above = above_masks_table(view.evidence, view.roar_caption, names)
        tables = [*curve_tables(view.suite_results, view.curve_boards, names), *([above] if above else [])]
        overlaid = {dataset: _overlaid(view, names, dataset) for dataset in PUBLISHED}
        words = [pages.level_words(table) for table in tables if not table.drawn]
        over = {dataset: _drawn(found) for dataset, found in overlaid.items() if found}
        if tables:
            families.append(FamilyFigures(plain(family), _drawn(tables), words, over))
        all_tables += [*tables, *(table for found in overlaid.values() for table in found)]
    once = {tuple(row.items()): row for row in curve_records(all_tables)}  # the controls are in every family
    return {
        "families": families,
        "points": list(once.values()),
        "points_table": POINTS_TABLE,
        "published": PUBLISHED,
        "better": pages.better_words(all_tables),
    }


def _overlaid(view: SuiteView, names: list[str], dataset: str) -> list[CurveTable]:
    """Return the curves with the paper's added; none if the paper has none of these estimators."""
    tables = curve_tables(view.suite_results, view.curve_boards, names, dataset)
    return [table for table in tables if any(p.source == "published" and not p.control for p in table.points)]


def _drawn(tables: Iterable[CurveTable]) -> list[tuple[str, str]]:
    """Return the figures of the protocols that have curves."""
    return [(to_svg(charts.curve_chart(table)), pages.figure_words(table)) for table in tables if table.drawn]


def compare_page(view: SuiteView) -> dict[str, Any]:
    """Return the fields of the comparison page: all pairs of the best rows and the controls."""
    rows = view.table.rows
    names = [row.estimator for i, row in enumerate(rows) if i < PAIRED or row.estimator in CONTROLS]
    found = [view.compare(*pair) for pair in combinations(names, 2)]
    comparisons = [comparison for comparison in found if comparison]
    records = [row for comparison in comparisons for row in comparison_records(comparison)]
    pairs = [_pair(comparison, names) for comparison in comparisons]
    return {
        "names": names,
        "comparisons": comparisons,
        "pairs": pairs,
        "records": records,
        "cut": len(names) < len(rows),
    }


def _pair(comparison: PairComparison, names: list[str]) -> dict[str, Any]:
    """Return a pair as data of the page, names by number: the page's script shows any of them, in either order."""
    levels = [{**asdict(level), "difference": rounded(level.difference)} for level in comparison.levels]
    pair = {"first": names.index(comparison.first), "second": names.index(comparison.second)}
    return {**pair, "caption": comparison.caption, "gain": rounded(comparison.gain), "levels": levels}


Save = Callable[[Bytes], str]  # keeps a picture as a file; returns its name


def gallery_page(view: SuiteView, save: Save) -> dict[str, Any]:
    """Return the fields of the gallery page: images, maps and what is left, for all images of the gallery."""
    shown, levels = view.gallery, view.table.levels
    if shown is None:
        return {"images": [], "pictures": [], "damaged": ""}
    names = [entry.estimator for entry in view.entries if entry.estimator in shown.planes]
    images = [
        (number, save(original(shown, i)), [_column(shown, name, i, levels, save) for name in names])
        for i, number in enumerate(shown.numbers)
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
        "unit": shown.layout.unit,
        "of": view.table.caption,
        "damaged": damaged_rankings(shown.damaged) if shown.damaged else "",
    }


def _column(
    shown: Gallery, name: str, image: int, levels: Sequence[float], save: Save
) -> tuple[str, str, list[tuple[str, str]]]:
    left = [(f"{t:g}", save(degraded(shown, name, image, t))) for t in levels]
    return name, save(heat(shown, name, image)), left


def cost_page(view: SuiteView) -> dict[str, Any]:
    """Return the fields of the cost page: gain against cost."""
    table = view.table
    points, rows, summary = pages.cost_table(table)
    return {
        "table": table,
        "svg": to_svg(charts.cost_chart(table)) if points else "",
        "words": summary,
        "gain": pages.gain_title(table),
        "points": points,
        "rows": rows,
    }


def entry_page(views: Sequence[SuiteView], name: str, save: Save) -> dict[str, Any]:
    """Return the fields of an estimator's page."""
    found = [(view, row) for view in views for row in view.entries if row.estimator == name]
    return {
        "boards": pages.entry_boards(views, name),
        "suites_in": [_in_suite(view, row, save) for view, row in found],
    }


def _in_suite(view: SuiteView, row: BoardRow, save: Save) -> dict[str, Any]:
    """Return what one suite says of an estimator."""
    runs = runs_of(view.suite_results, row.estimator)
    same, each = shared(runs)
    return {
        "title": view.suite_results.title,
        "caption": view.table.caption,
        "entry": row,
        "noise": kept_words(view.suite_results.kept.get(row.estimator)),
        "pictures": _map_rows(view.gallery, row.estimator, view.table.levels, save),
        "validity": pages.validity(view, row.estimator),
        "legend": panel_legend(view.panel),
        "command": command(view.suite_results, row.estimator),
        "same": same,
        "runs": each,
    }


def _map_rows(
    shown: Gallery | None, name: str, levels: Sequence[float], save: Save
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return images, maps of the estimator and the controls, and what is left at each level: label, files and words."""
    if shown is None or name not in shown.planes:
        return []
    numbers = list(enumerate(shown.numbers))
    names = dict.fromkeys((name, *(control for control in CONTROLS if control in shown.planes)))
    rows = [("untouched", [(save(original(shown, i)), f"Test image {n}") for i, n in numbers])]
    for who in names:
        label = plain(who)
        maps = [(save(heat(shown, who, i)), f"Map of {label} on image {n}") for i, n in numbers]
        rows.append((f"map, {label}", maps))
    for t in levels:
        left = [(save(degraded(shown, name, i, t)), f"Test image {n}, what is left at t = {t:g}") for i, n in numbers]
        rows.append((f"left at t = {t:g}, {plain(name)}", left))
    return rows


def about_page() -> dict[str, Any]:
    """Return the fields of the about page: texts, and the toy's figure."""
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


def empty_page() -> dict[str, str]:
    """Return the fields of the page of an empty store."""
    return {"empty": EMPTY}
