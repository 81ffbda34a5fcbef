"""The fields of the templates of the static pages; those of a board are made in `static_board`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
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
from leaderboard.entry import command, runs_of, shared
from leaderboard.gallery import Bytes, Gallery, degraded, heat, original
from leaderboard.papers import HOOKER
from leaderboard.rows import BoardRow
from leaderboard.snapshot import SuiteView
from leaderboard.static_board import rounded
from leaderboard.text import ABOUT, CHANGES, EMPTY, LIMITS, SUBMIT, damaged_rankings, plain
from roarbench.analysis.noisy_copies import kept_words
from roarbench.estimators import CONTROLS
from roarbench.protocols import SHOWN
from roarbench.report.validity_panel import legend as panel_legend

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
        "protocols": [protocol.about for protocol in SHOWN.values()],
        "submit": SUBMIT,
        "cite": HOOKER.bibtex,
        "changes": CHANGES,
    }


def empty_page() -> dict[str, str]:
    """Return the fields of the page of an empty store."""
    return {"empty": EMPTY}
