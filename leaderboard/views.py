"""Pages of the app that show numbers of one suite: the board, curves, comparisons and costs."""

from dataclasses import replace
from typing import Any

import streamlit as st

from leaderboard import content, figures
from leaderboard.curves import PUBLISHED, curve_records, curve_tables
from leaderboard.duel import duel_records
from leaderboard.formats import board_csv, board_json, board_records, to_latex, to_markdown
from leaderboard.session import Session, chart, choose, choose_some, downloads, numbers, table
from leaderboard.source import protocols, units
from leaderboard.tables import SORTS, BoardTable, Filter, narrow
from leaderboard.words import COLUMNS, PROTOCOLS, plain, signed
from roarbench.estimators import CONTROLS
from roarbench.standings import Standing
from roarbench.terms import PROTOCOLS as TERMS
from roarbench.terms import Unit

_CHARTED = 30  # rows that the chart of gains has at most
_SHOWN = {  # columns of the table: heading, and the sentence that explains it
    "place": ("place", "place"),
    "estimator": ("estimator", "estimator"),
    "kind": ("kind", "estimator"),
    "gain": ("gain", "gain"),
    "interval": ("95% interval", "gain"),
    "random": ("vs Random", "random"),
    "sobel": ("vs Sobel", "sobel"),
    "kar": ("KAR gain", "kar"),
    "unretrained": ("no-retrain gain", "no-retrain"),
    "flag": ("flag", "flag"),
    "seconds": ("s / 1,000 maps", "seconds"),
    "seeds": ("seeds", "seeds"),
    "date": ("date", "date"),
    "status": ("status", "status"),
    "groups": ("tie groups", "group"),
    "gap": ("no place because", "place"),
}
_POINTS = ("gain", "kar", "unretrained")
_WIDTHS: dict[str, Any] = {"flag": "small"}  # a sentence: the entry's page has all of it


def board(session: Session) -> None:
    """One row per estimator."""
    asked, whole = _ask(session)
    shown = narrow(whole, asked)
    st.write(f"{PROTOCOLS[shown.protocol]}. {shown.caption}.")
    count, kept = len(shown.entries), f"{len(shown.entries)} of {whole.whole} rows"
    st.text(f"{kept}. Places are among the rows shown; what their intervals say follows from tests over all rows.")
    _rows(shown, session.shown.held)
    if any(entry.gain.value is not None for entry in shown.entries):
        first = replace(shown, entries=shown.entries[:_CHARTED])
        chart(figures.gain_chart(first), f"Gains over Random with intervals, {kept}")
        cut = f" Only the first {_CHARTED} rows are drawn." if count > _CHARTED else ""
        st.write(f"Bars are 95% intervals. The line at 0 is Random, the dashed line Sobel.{cut}")
    st.write(shown.footnote)
    more = {"csv": board_csv(shown), "json": board_json(shown), "tex": to_latex(shown), "md": to_markdown(shown)}
    downloads(board_records(shown), f"board-{shown.slug}", more)


def _ask(session: Session) -> tuple[Filter, BoardTable]:
    """What the reader asks for, and the board of all rows under that protocol."""
    held = session.shown.held
    search = st.text_input("Search in names and descriptions", key="search", bind="query-params")
    with st.expander("Filter and sort"):
        left, middle, right = st.columns(3)
        with left:
            protocol = TERMS[choose("Protocol", [p.name for p in protocols(held)], "protocol", "roar")]
            unit = Unit(choose("Unit", [str(unit) for unit in units(held, protocol)], "unit"))
        blocks = [block for block in held.suite.blocks if (block.protocol, block.unit) == (protocol, unit)]
        levels = sorted({t for block in blocks for t in block.levels})
        with middle:
            level = choose("Levels", ["all", *(f"{t:g}" for t in levels)], "level")
            sort = choose("Sort by", list(SORTS), "sort")
        chosen = () if level == "all" else (float(level),)
        whole = session.shown.board(protocol, unit, chosen)
        with right:
            families = ["control", *dict.fromkeys(entry.family for entry in whole.entries if not entry.control)]
            kept = choose_some("Family", families, "family")
            status = choose("Status", ["any", "verified", "trusted", "self-reported"], "status")
    return Filter(tuple(kept), search or "", "" if status == "any" else status, sort), whole


def _rows(shown: BoardTable, held: Standing) -> None:
    rows = [_row(number, shown, held) for number in range(len(shown.entries))]
    if not rows:
        st.info("No row passes these filters.")
        return
    configuration = {
        heading: st.column_config.NumberColumn(heading, help=COLUMNS[why], format="%+.1f")
        if key in _POINTS
        else st.column_config.NumberColumn(heading, help=COLUMNS[why], format="%.3g")
        if key == "seconds"
        else st.column_config.Column(heading, help=COLUMNS[why], pinned=key == "estimator", width=_WIDTHS.get(key))
        for key, (heading, why) in _SHOWN.items()
    }
    names = [entry.estimator for entry in shown.entries]

    def open_entry() -> None:
        picked = st.session_state["rows"]["selection"]["rows"]
        if picked:
            st.session_state["page"], st.session_state["estimator"] = "Entry", names[picked[0]]
            st.query_params["estimator"] = names[picked[0]]  # the list is not there yet, so it cannot tell the address

    options: dict[str, Any] = {"key": "rows", "on_select": open_entry, "selection_mode": "single-row"}
    table(rows, f"Board of {shown.title}", column_config=configuration, **options)
    st.write("Tick a row to open the estimator's page; by keyboard, Shift and Space on the row.")


def _row(number: int, shown: BoardTable, held: Standing) -> dict[str, Any]:
    entry = shown.entries[number]
    record = board_records(replace(shown, entries=(entry,)))[0]
    low, high = entry.gain.low, entry.gain.high
    cells = {
        "place": content.span(entry),
        "estimator": record["estimator"],
        "kind": "control" if entry.control else entry.family,
        "gain": _shown_points(entry.gain.value),
        "interval": "" if low is None or high is None else f"[{signed(low)}, {signed(high)}]",
        "random": entry.random,
        "sobel": entry.sobel,
        "kar": _shown_points(entry.kar.value),
        "unretrained": _shown_points(entry.unretrained.value),
        "flag": entry.flag,
        "seconds": entry.seconds,
        "seeds": entry.seeds,
        "date": entry.date,
        "status": content.status(entry, held),
        "groups": record["tie_groups"],
        "gap": entry.gap,
    }
    return {_SHOWN[key][0]: value for key, value in cells.items()}


def _shown_points(value: float | None) -> float | None:
    """As many digits as the column shows, so that what rounds to nothing has no minus."""
    return None if value is None else round(value, 1) + 0.0


def curves(session: Session) -> None:
    """Accuracy against level, three protocols side by side."""
    others = [name for name in session.names if name not in CONTROLS]
    chosen = choose_some("Estimators", others, "curves", others[:5])
    laid = choose("Lay the paper's curves over", ["none", *PUBLISHED], "published")
    tables = curve_tables(session.shown.held, session.shown.curve_boards, chosen, "" if laid == "none" else laid)
    for place, found in zip(st.columns(len(tables)), tables, strict=True):
        with place:
            st.subheader(found.protocol.upper())
            chart(figures.curve_chart(found), content.figure_words(found))
            st.write(found.caption)
    st.write("The controls are always there, in grey. Published curves are dashed; another data set and network.")
    records = curve_records(tables)
    with st.expander("The same numbers as a table"):
        options = {"column_config": numbers("%.3f", "accuracy", "low", "high")}
        table(records, "Accuracy by protocol, estimator and level", **options)
    downloads(records, f"curves-{session.slug}")


def compare(session: Session) -> None:
    """Two estimators, paired."""
    names = session.names
    left, right = st.columns(2)
    with left:
        first = choose("First", names, "first")
    with right:
        second = choose("Second", names, "second", names[min(1, len(names) - 1)])
    arena = session.shown.arena
    if first == second or arena is None:
        st.info("Choose two different estimators.")
        return
    found = arena.duel(first, second)
    value, low, high = found.gain
    if value is not None:
        sure = "" if low is None or high is None else f" [{signed(low)}, {signed(high)}]"
        st.text(f"Gain of {plain(first)} minus gain of {plain(second)}: {signed(value)}{sure} accuracy points")
    st.write(f"{found.caption}. Below 0 at a level, the first takes more away.")
    records = duel_records(found)
    if records:
        chart(figures.duel_chart(found), f"Accuracy difference per level. {found.caption}")
        options = {"column_config": numbers("%+.1f", "difference", "low", "high")}
        table(records, "Differences in accuracy points per level, and the images that only one destroys", **options)
        st.write("An image is destroyed where most networks get it wrong; the examples are numbers of test images.")
    downloads(records, f"compare-{session.slug}")


def cost(session: Session) -> None:
    """Gain against the cost of the maps."""
    shown = session.shown
    priced = content.cost_points(shown.table)
    st.write(f"{shown.table.caption}. Seconds are processor seconds for the maps of 1,000 images.")
    if not priced.points:
        st.info("This store does not say how long the importance maps took.")
        return
    chart(figures.cost_chart(shown.table), priced.words)
    st.text(priced.words)
    options = {**numbers("%.3g", "seconds per 1000 images"), **numbers("%+.1f", "gain", "gain low", "gain high")}
    shown_points = [
        {key: _shown_points(value) if key.startswith("gain") else value for key, value in row.items()}
        for row in priced.points
    ]
    table(shown_points, "Gain in accuracy points, and cost", column_config=options)
    downloads(priced.points, f"cost-{session.slug}")
