"""The comparison page, which compares two rows by their gains and by the predictions behind the gains."""

from collections.abc import Iterator
from typing import Any

from leaderboard.board_contents import BoardContents, BoardRow
from leaderboard.links import Address, PageNotFound, Site, make_address, read_choice
from leaderboard.page.board import write_caption
from leaderboard.suite_view import SuiteView
from leaderboard.text_helpers import shorten_line
from roarbench.analysis.row_comparison import compare_rows, describe_verdict
from roarbench.analysis.suite_judges import judge_suite
from roarbench.plan.protocols import MASK_ONLY, Protocol
from roarbench.plan.suites import find_headline_protocols

_PAIRS = 3  # pairs of rows on a static page; the app compares any two rows


def list_protocols(view: SuiteView) -> list[Protocol]:
    """Return the protocols under which two rows can be compared, the headline protocol first; no board is computed."""
    return [protocol for protocol in view.protocols if protocol != MASK_ONLY]


def list_exported_addresses(view: SuiteView) -> list[Address]:
    """Return the addresses of a suite's static pages, one for each protocol that the suite leads with."""
    # whether there are two rows to compare is known without computing a board
    run = view.results.by_estimator.keys() & set(view.results.suite.estimators_with_own_row)
    if len(run) < 2 or view.headline_protocol == MASK_ONLY:
        return []
    leading = dict.fromkeys((view.headline_protocol, *find_headline_protocols(view.results.suite)))
    return [_find_address(view, protocol) for protocol in leading if protocol in list_protocols(view)]


def _find_address(view: SuiteView, protocol: Protocol, **pair: str) -> Address:
    other = "" if protocol == view.headline_protocol else protocol.name
    return make_address("compare", view.slug, protocol=other, **pair)


def build_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields: the requested pair of rows, or the best row compared with some others."""
    view = site.find_view(address)
    protocols = {protocol.name: protocol for protocol in list_protocols(view)}
    protocol = protocols[read_choice(view, address, "protocol", protocols)]
    unit = view.results.list_units(protocol)[0]
    board = view.get_board(protocol)
    rows = {row.id: row for row in board.rows if board.has_gains and row.value.value is not None}
    links = {other: site.get_link(_find_address(view, other)) for other in protocols.values()}
    return {
        "view": view,
        "board": board,
        "protocol": protocol,
        "tabs": [(view.get_tab_label(other), link, other == protocol) for other, link in links.items() if link],
        "found": [
            (pair, compare_rows(judge_suite(view.results, unit), protocol, unit, pair[0].id, pair[1].id))
            for pair in _choose_pairs(view, board, address, rows)
        ],
        "rows": rows.values(),
        "describe_verdict": describe_verdict,
        "caption": write_caption(view.table(protocol)),
    }


def _choose_pairs(
    view: SuiteView, board: BoardContents, address: Address, rows: dict[str, BoardRow]
) -> Iterator[tuple[BoardRow, BoardRow]]:
    names = [name for key in ("first", "second") if (name := address.get_choice(key))]
    for name in names:
        if name not in rows:
            there = f"with {board.protocol.gain_name} in {view.title}"
            raise PageNotFound(f"There is no row {shorten_line(name, 60)!r} {there}.")
    estimators = [name for name, row in rows.items() if not row.control]
    control = [board.best_control.id] if board.best_control else []
    chosen = [rows[name] for name in dict.fromkeys([*names, *estimators[:_PAIRS], *control, *rows])]
    for row in chosen[1 : 2 if len(names) > 1 else 1 + _PAIRS]:
        yield chosen[0], row
