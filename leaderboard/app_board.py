"""The board's page of the app: choices, rows, chart, downloads."""

from dataclasses import replace

import streamlit as st

from leaderboard import charts, pages
from leaderboard.curves import UNRETRAINED, ProbabilityTable, probability_table
from leaderboard.downloads import board_files, board_records
from leaderboard.filters import RISING, SORTS, Filter, filter_rows
from leaderboard.rows import BoardTable
from leaderboard.session import (
    Session,
    download_buttons,
    from_address,
    link,
    number_columns,
    render_part,
    search_box,
    show_chart,
    show_heading,
    show_table,
    this_page,
)
from leaderboard.source import protocols, units
from leaderboard.text import HEADINGS
from roarbench.protocols import SHOWN
from roarbench.terms import Unit

_CHARTED = 30  # rows that the chart of gains has at most
_NARROW = 170  # pixels of one of several lists of choices in a row


def board(session: Session) -> None:
    """Show the board: one row per estimator."""
    wanted, whole, level = _choices(session)
    shown = filter_rows(whole, wanted)
    st.text(f"{SHOWN[shown.protocol].about}. {shown.caption}.")
    if shown.headline:
        st.subheader(shown.headline, anchor=False)
    count, kept = len(shown.rows), f"{len(shown.rows)} of {whole.whole} rows"
    st.text(f"{kept}. Places are those among all rows." if shown.gained and count < whole.whole else f"{kept}.")
    if count:
        _rows(session, shown, whole, wanted)
    else:
        st.info("No row passes these filters.")
    if any(entry.gain.value is not None for entry in shown.rows):
        first = replace(shown, rows=shown.rows[:_CHARTED])
        show_chart(charts.gain_chart(first), f"{pages.gain_title(shown)} with intervals, {kept}")
        cut = f" Only the first {_CHARTED} rows are drawn." if count > _CHARTED else ""
        st.text(f"Bars are 95% intervals; {pages.bar_lines(shown)}.{cut}")
    st.text(shown.footnote)
    download_buttons(board_records(shown), shown.stem + (f"-{level}" if level else ""), board_files(shown))
    if SHOWN[shown.protocol] in UNRETRAINED:
        _probabilities(probability_table(session.view.suite_results, SHOWN[shown.protocol], shown.unit))


def _probabilities(found: ProbabilityTable) -> None:
    """Show how the probability of the predicted class falls, for all rows."""
    if found.records:
        show_heading(found.title)
        st.text(found.explanation)
        show_table(found.records, found.title, column_config=number_columns("%.3f", *list(found.records[0])[1:]))
        download_buttons(found.records, found.stem)


def _choices(session: Session) -> tuple[Filter, BoardTable, str]:
    """Ask what is shown: return the filter, the board of all rows, and its level if it is one of several."""
    suite_results = session.view.suite_results
    with st.container(horizontal=True):
        words = search_box("Search", "search")
        protocol = SHOWN[
            session.choose("Protocol", [p.name for p in protocols(suite_results)], "protocol", width=_NARROW)
        ]
        unit = Unit(
            session.choose("Unit", [str(unit) for unit in units(suite_results, protocol)], "unit", width=_NARROW)
        )
        levels = suite_results.levels(protocol, unit)
        what = f"level {{}} under {protocol.title}"
        level = session.choose("Level", ["all", *(f"{t:g}" for t in levels)], "level", width=_NARROW, what=what)
        level = "" if level == "all" else level
        whole = session.view.board(protocol, unit, (float(level),) if level else ())
        families = ["control", *dict.fromkeys(entry.family for entry in whole.rows if not entry.control)]
        kept = session.choose_some("Family", families, "family", width=_NARROW)
        status = session.choose("Status", ["any", "verified", "trusted", "self-reported"], "status", width=_NARROW)
    sort = from_address(session.notes, "sort", list(SORTS), "gain", "column {} to sort by")
    down = {"1": True, "0": False}.get(st.query_params.get("down", ""))
    return (
        Filter(tuple(kept), words, "" if status == "any" else status, sort, down),
        whole,
        "" if level == "all" else level,
    )


def _rows(session: Session, shown: BoardTable, whole: BoardTable, wanted: Filter) -> None:
    down = wanted.sort not in RISING if wanted.down is None else wanted.down
    sorts = {key: pages.ColumnSort("", this_page(sort=key, down="")) for key in HEADINGS}
    sorts[wanted.sort] = pages.ColumnSort("descending" if down else "ascending", this_page(down="0" if down else "1"))
    names = [entry.estimator for entry in shown.rows]
    links = {name: link(page="Entry", suite=session.slug, estimator=name) for name in names}
    rows = [(entry, None, True) for entry in shown.rows]
    small = session.view.suite_results.limit
    st.html(
        render_part("board", shown, rows, links, sorts, pages.legend(shown), small, False, pages.empty_columns(whole))
    )
