"""The board page, which shows the rows of a suite with their verdicts, and the page that compares two rows."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

from leaderboard.figures import draw_curve_panels_as_webp, make_cost_scatter
from leaderboard.links import Address, PageNotFound, Site, make_address, read_choice
from leaderboard.suite_view import SuiteView
from leaderboard.text_helpers import shorten_line
from roarbench.analysis.suite_judges import compare_rows, describe_verdict, judge_suite
from roarbench.common.enums import Unit
from roarbench.plan.protocols import MASK_ONLY, ROAR, SHOWN, Protocol
from roarbench.plan.suites import find_headline_protocols
from roarbench.report.suite_table_columns import present_suite_table
from roarbench.report.table import SuiteTable
from roarbench.report.table_notes import write_all_notes
from roarbench.report.table_renderers import format_csv, format_json

ALL_GAINS = "All gains"
_PAIRS = 3  # pairs of rows on a static page; the app compares any two rows


def find_board_address(view: SuiteView, protocol: Protocol, unit: Unit | None = None) -> Address:
    """Return the address of a protocol's board; choices that are defaults are left out."""
    other = "" if protocol == view.headline_protocol and not view.leads_with_roar_and_own_network else protocol.name
    unit_text = "" if unit in (None, view.results.list_units(protocol)[0]) else str(unit)
    return make_address("board", view.slug, protocol=other, unit=unit_text)


def build_board_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of a board.

    If the address chooses no protocol, and the suite leads with ROAR and own-network gain, the board shows both.
    """
    view, live = site.find_view(address), site.live
    both = None if address.choices else view.combined_board
    chosen = "" if both else read_choice(view, address, "protocol", [shown.name for shown in view.protocols])
    tabs = [(ALL_GAINS, site.get_page_link("board", view.slug), not chosen)] * view.leads_with_roar_and_own_network
    for other in view.protocols:
        link = site.get_link(find_board_address(view, other))
        tabs.append((view.get_tab_label(other), link, other.name == chosen))
    views = site.views.values()
    shared = {
        "view": view,
        "tabs": tabs,
        "suites": [(shorten_line(one.title, 80), site.get_page_link("board", one.slug), one is view) for one in views],
    }
    if both:
        return shared | {
            "board": both,
            "tab": ALL_GAINS,
            "heading": both.headline or view.title,
            "advice": view.advice,
            "costs": make_cost_scatter(both),
            "units": [],
            "legend": [(column.legend_title, column.colour_legend) for column in both.started_boards],
            "files": _add_download_files(site, view, view.slug, view.tables),
            "captions": both.caption,
        }
    protocol = SHOWN[chosen]
    units = view.results.list_units(protocol)
    unit = Unit(read_choice(view, address, "unit", units))
    board, table = view.get_board(protocol, unit), view.table(protocol, unit)
    curves = ""
    started = any(point.value is not None for row in table.board.rows for point in row.accuracies)
    # the app's first page has no curves, because importing matplotlib takes long
    if protocol == ROAR and len(board.levels) > 1 and started and (address.choices or not live):
        draw = partial(view.get_or_compute, ("curves", unit), partial(draw_curve_panels_as_webp, table))
        curves = site.add_file(f"curves-{view.slug}-{unit}.webp", draw)
    name, tables = (f"board-{view.slug}-{protocol.name}-{unit}", [table]) if live else (view.slug, view.tables)
    return shared | {
        "board": board,
        "tab": board.tab_label,
        "heading": board.headline or f"{view.title}: {board.tab_label}",
        "lede": re.sub(r"\*(.+?)\*", r"<b>\1</b>", protocol.dot_meaning.replace("'", "’")),
        "units": [(str(one), site.get_link(find_board_address(view, protocol, one)), one == unit) for one in units],
        "curves": curves,
        "legend": [("", board.colour_legend)],
        "files": _add_download_files(site, view, name, tables),
        "captions": [write_caption(table)],
    }


def write_caption(table: SuiteTable) -> str:
    """Describe numbers, scope of intervals and exceptions, without signs such as †: rows state doubts in words."""
    return f"{table.caption}. {write_all_notes(table, signs=False)}"


def _add_download_files(site: Site, view: SuiteView, name: str, tables: list[SuiteTable]) -> list[tuple[str, str]]:
    """Return label and address of each file to download; the files have the output of `roarbench table`.

    The static site has one file of each kind per suite; the app offers the files of the board that it shows.
    """

    def write_texts() -> dict[str, str]:
        shown = list(map(present_suite_table, tables))
        if len({table.unit for table in tables}) > 1:  # rows of two units differ only in their unit
            shown = [replace(table, shared_keys=(*table.shared_keys, "unit")) for table in shown]
        return {"csv": format_csv(*shown), "json": "[" + ",\n".join(map(format_json, shown)) + "]"}

    def write_file(kind: str) -> bytes:
        return f"{view.get_or_compute(('files', name), write_texts)[kind]}\n".encode()

    return [(kind.upper(), site.add_file(f"{name}.{kind}", partial(write_file, kind))) for kind in ("csv", "json")]


def list_exported_addresses(view: SuiteView) -> list[Address]:
    """Return the addresses of a suite's static pages, one for each protocol that the suite leads with."""
    # whether there are two rows to compare is known without computing a board
    run = view.results.by_estimator.keys() & set(view.results.suite.estimators_with_own_row)
    if len(run) < 2 or view.headline_protocol == MASK_ONLY:
        return []
    leading = dict.fromkeys((view.headline_protocol, *find_headline_protocols(view.results.suite)))
    shown = (protocol for protocol in leading if protocol in view.protocols and protocol != MASK_ONLY)
    return [_find_compare_address(view, protocol) for protocol in shown]


def _find_compare_address(view: SuiteView, protocol: Protocol) -> Address:
    other = "" if protocol == view.headline_protocol else protocol.name
    return make_address("compare", view.slug, protocol=other)


def build_compare_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields: the requested pair of rows, or the best row compared with some others."""
    view = site.find_view(address)
    protocols = {protocol.name: protocol for protocol in view.protocols if protocol != MASK_ONLY}  # it has no gains
    protocol = protocols[read_choice(view, address, "protocol", protocols)]
    unit, board = view.results.list_units(protocol)[0], view.get_board(protocol)
    rows = {row.id: row for row in board.rows if board.has_gains and row.value.value is not None}
    names = [name for key in ("first", "second") if (name := address.get_choice(key))]
    for name in names:
        if name not in rows:
            there = f"with {board.protocol.gain_name} in {view.title}"
            raise PageNotFound(f"There is no row {shorten_line(name, 60)!r} {there}.")
    estimators = [name for name, row in rows.items() if not row.control]
    control = [board.best_control.id] if board.best_control else []
    chosen = [rows[name] for name in dict.fromkeys([*names, *estimators[:_PAIRS], *control, *rows])]
    pairs = [(chosen[0], row) for row in chosen[1 : 2 if len(names) > 1 else 1 + _PAIRS]]
    links = {other: site.get_link(_find_compare_address(view, other)) for other in protocols.values()}
    judges = judge_suite(view.results, unit)
    return {
        "view": view,
        "board": board,
        "protocol": protocol,
        "tabs": [(view.get_tab_label(other), link, other == protocol) for other, link in links.items() if link],
        "found": [(pair, compare_rows(judges, protocol, unit, pair[0].id, pair[1].id)) for pair in pairs],
        "rows": rows.values(),
        "describe_verdict": describe_verdict,
        "caption": write_caption(view.table(protocol)),
    }
