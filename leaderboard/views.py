"""Pages of the app that show numbers of one suite: the board, curves, comparisons and costs."""

from dataclasses import replace

import streamlit as st

from leaderboard import content, figures
from leaderboard.curves import PUBLISHED, curve_records, curve_tables
from leaderboard.duel import duel_records
from leaderboard.falls import UNRETRAINED, FallTable, fall_table
from leaderboard.formats import board_files, board_records
from leaderboard.session import Session, asked, chart, downloads, here, link, numbers, part, records, search, table
from leaderboard.source import protocols, units
from leaderboard.tables import RISING, SORTS, BoardTable, Filter, narrow
from leaderboard.words import HEADINGS, PROTOCOLS, plain, protocol_name, signed
from roarbench.estimators import CONTROLS
from roarbench.terms import PROTOCOLS as TERMS
from roarbench.terms import Unit

_CHARTED = 30  # rows that the chart of gains has at most
_NARROW = 170  # pixels of a list of choices that stands beside others


def board(session: Session) -> None:
    """One row per estimator."""
    wanted, whole, level = _ask(session)
    shown = narrow(whole, wanted)
    st.write(f"{PROTOCOLS[shown.protocol]}. {shown.caption}.")
    count, kept = len(shown.entries), f"{len(shown.entries)} of {whole.whole} rows"
    st.text(f"{kept}. Places are among the rows shown." if shown.gained else f"{kept}.")
    if count:
        _rows(session, shown, whole, wanted)
    else:
        st.info("No row passes these filters.")
    if any(entry.gain.value is not None for entry in shown.entries):
        first = replace(shown, entries=shown.entries[:_CHARTED])
        chart(figures.gain_chart(first), f"Gains over Random with intervals, {kept}")
        cut = f" Only the first {_CHARTED} rows are drawn." if count > _CHARTED else ""
        st.write(f"Bars are 95% intervals; {content.strokes(shown)}.{cut}")
    st.write(shown.footnote)
    downloads(board_records(shown), shown.stem + (f"-{level}" if level else ""), board_files(shown))
    if TERMS[shown.protocol] in UNRETRAINED:
        _falls(fall_table(session.shown.held, TERMS[shown.protocol], shown.unit))


def _falls(found: FallTable) -> None:
    """How the probability of the predicted class falls, of all rows."""
    if found.records:
        st.subheader(found.title)
        st.write(found.about)
        table(found.records, found.title, column_config=numbers("%.3f", *list(found.records[0])[1:]))
        downloads(found.records, found.stem)


def _ask(session: Session) -> tuple[Filter, BoardTable, str]:
    """What the reader asks for, the board of all rows under that protocol, and its level if it is one of several."""
    held = session.shown.held
    with st.container(horizontal=True):
        words = search("Search", "search")
        protocol = TERMS[session.choose("Protocol", [p.name for p in protocols(held)], "protocol", width=_NARROW)]
        unit = Unit(session.choose("Unit", [str(unit) for unit in units(held, protocol)], "unit", width=_NARROW))
        blocks = [block for block in held.suite.blocks if (block.protocol, block.unit) == (protocol, unit)]
        levels = sorted({t for block in blocks for t in block.levels})
        what = f"level {{}} under {protocol_name(protocol.name)}"
        level = session.choose("Level", ["all", *(f"{t:g}" for t in levels)], "level", width=_NARROW, what=what)
        level = "" if level == "all" else level
        whole = session.shown.board(protocol, unit, (float(level),) if level else ())
        families = ["control", *dict.fromkeys(entry.family for entry in whole.entries if not entry.control)]
        kept = session.choose_some("Family", families, "family", width=_NARROW)
        status = session.choose("Status", ["any", "verified", "trusted", "self-reported"], "status", width=_NARROW)
    sort = asked(session.notes, "sort", list(SORTS), "gain", "column {} to sort by")
    down = {"1": True, "0": False}.get(st.query_params.get("down", ""))
    return (
        Filter(tuple(kept), words, "" if status == "any" else status, sort, down),
        whole,
        "" if level == "all" else level,
    )


def _rows(session: Session, shown: BoardTable, whole: BoardTable, wanted: Filter) -> None:
    down = wanted.sort not in RISING if wanted.down is None else wanted.down
    sorts = {key: content.Sorted("", here(sort=key, down="")) for key in HEADINGS}
    sorts[wanted.sort] = content.Sorted("descending" if down else "ascending", here(down="0" if down else "1"))
    names = [entry.estimator for entry in shown.entries]
    links = {name: link(page="Entry", suite=session.slug, estimator=name) for name in names}
    rows = [(entry, None, True) for entry in shown.entries]
    small = session.shown.held.limit
    st.html(part("board", shown, rows, links, sorts, content.legend(shown), small, False, content.without(whole)))


def curves(session: Session) -> None:
    """Accuracy against level, three protocols side by side."""
    others = [name for name in session.names if name not in CONTROLS]
    chosen = session.choose_some("Estimators", others, "curves", others[:5], what="estimator {} here")
    what = "published data set {} here"
    laid = session.choose("Lay the paper's curves over", ["none", *PUBLISHED], "published", what=what)
    tables = curve_tables(session.shown.held, session.shown.curve_boards, chosen, "" if laid == "none" else laid)
    for place, found in zip(st.columns(len(tables)), tables, strict=True):
        with place:
            st.subheader(protocol_name(found.protocol))
            chart(figures.curve_chart(found), content.figure_words(found))
            st.write(found.caption)
    st.write("The controls are always there, in grey. Published curves are dashed; another data set and network.")
    points = curve_records(tables)
    with st.expander("The same numbers as a table"):
        options = {"column_config": numbers("%.3f", "accuracy", "low", "high")}
        table(points, "Accuracy by protocol, estimator and level", **options)
    downloads(points, f"curves-{session.slug}")


def compare(session: Session) -> None:
    """Two estimators, paired."""
    names = session.names
    left, right = st.columns(2)
    with left:
        first = session.choose("First", names, "first", what="estimator {} here")
    with right:
        second = session.choose("Second", names, "second", names[min(1, len(names) - 1)], what="estimator {} here")
    session.name(f"{first} against {second}")
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
    if found.levels:
        chart(figures.duel_chart(found), f"Accuracy difference per level. {found.caption}")
        st.html(part("duel", found, f"{plain(first)} against {plain(second)}"))
        st.write("An image is destroyed where most networks get it wrong; the examples are numbers of test images.")
    downloads(duel_records(found), f"compare-{session.slug}")


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
    records(priced.rows, "Gain in accuracy points, and cost")
    downloads(priced.points, f"cost-{session.slug}")
