"""The pages of the app, one function each."""

from dataclasses import replace

import streamlit as st

from leaderboard import charts, pages
from leaderboard.compare import duel_records
from leaderboard.curves import PUBLISHED, UNRETRAINED, FallTable, curve_records, curve_tables, fall_table, toy_tables
from leaderboard.downloads import board_files, board_records
from leaderboard.entry import HOOKER, command, machines, profile, runs_of, shared
from leaderboard.gallery import SIDE, Bytes, data_uri, degraded, enlarged, heat, original
from leaderboard.rows import RISING, SORTS, BoardTable, Entry, Filter, narrow
from leaderboard.session import Session, asked, chart, downloads, here, link, numbers, part, records, search, table
from leaderboard.snapshot import SuiteShown
from leaderboard.source import count_runs, protocols, read_runs, units
from leaderboard.text import (
    ABOUT,
    CHANGES,
    COLUMNS,
    HEADINGS,
    LIMITS,
    PROTOCOLS,
    SUBMIT,
    damaged_rankings,
    plain,
    protocol_name,
    signed,
)
from roarbench.estimators import CONTROLS
from roarbench.report.validity import legend
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
        chart(charts.gain_chart(first), f"Gains over Random with intervals, {kept}")
        cut = f" Only the first {_CHARTED} rows are drawn." if count > _CHARTED else ""
        st.write(f"Bars are 95% intervals; {pages.strokes(shown)}.{cut}")
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
    sorts = {key: pages.Sorted("", here(sort=key, down="")) for key in HEADINGS}
    sorts[wanted.sort] = pages.Sorted("descending" if down else "ascending", here(down="0" if down else "1"))
    names = [entry.estimator for entry in shown.entries]
    links = {name: link(page="Entry", suite=session.slug, estimator=name) for name in names}
    rows = [(entry, None, True) for entry in shown.entries]
    small = session.shown.held.limit
    st.html(part("board", shown, rows, links, sorts, pages.legend(shown), small, False, pages.without(whole)))


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
            chart(charts.curve_chart(found), pages.figure_words(found))
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
        chart(charts.duel_chart(found), f"Accuracy difference per level. {found.caption}")
        st.html(part("duel", found, f"{plain(first)} against {plain(second)}"))
        st.write("An image is destroyed where most networks get it wrong; the examples are numbers of test images.")
    downloads(duel_records(found), f"compare-{session.slug}")


def cost(session: Session) -> None:
    """Gain against the cost of the maps."""
    shown = session.shown
    priced = pages.cost_points(shown.table)
    st.write(f"{shown.table.caption}. Seconds are processor seconds for the maps of 1,000 images.")
    if not priced.points:
        st.info("This store does not say how long the importance maps took.")
        return
    chart(charts.cost_chart(shown.table), priced.words)
    st.text(priced.words)
    records(priced.rows, "Gain in accuracy points, and cost")
    downloads(priced.points, f"cost-{session.slug}")


def entry(session: Session) -> None:
    """One estimator in all suites."""
    name = session.choose("Estimator", session.names, "estimator")
    session.name(name)
    about = profile(name, (shown.held for shown in session.suites.values()))
    st.text(f"{about.about}." + (" A control: it never looks at the model." if about.control else ""))
    authors = about.authors and f"Authors: {about.authors}"
    papers = [f"Paper: {paper}" for paper in about.papers]
    claim = about.claim and f"Its authors claim: {about.claim}"
    for text in (about.settings, authors, *papers, claim, about.source and f"Source: {about.source}"):
        if text:
            st.text(text)
    if about.bibtex:
        with st.expander("BibTeX"):
            st.code(about.bibtex, language=None, wrap_lines=True)
    if about.code:
        with st.expander("The submitted file"):
            st.code(about.code, language=None, wrap_lines=True)
    boards = pages.entry_boards(list(session.suites.values()), name)
    records(boards, "Its row in each suite, gains in accuracy points")
    downloads(boards, "entry")
    found = [row for row in session.shown.table.entries if row.estimator == name]
    if found:
        _in_suite(session.shown, found[0])


def _in_suite(shown: SuiteShown, row: Entry) -> None:
    st.header(shown.held.title)
    st.write(shown.table.caption)
    for reason in (row.flag and f"Doubt: {row.flag}", row.gap and f"No place: {row.gap}"):
        if reason:
            st.text(reason)
    _strip(shown, row.estimator)
    st.subheader("Validity panel")
    for title, rows in pages.validity(shown, row.estimator):
        records(rows, title)
    st.write("; ".join(legend(shown.panel)))
    st.subheader("Do it again")
    st.code(command(shown.held, row.estimator), language=None, wrap_lines=True)
    made = runs_of(shown.held, row.estimator)
    same, each = shared(made)
    with st.expander(f"Provenance of its {len(made)} runs, with a command that does each again and compares"):
        for key, value in same.items():
            st.text(f"{key}: {value}")
        options = {**numbers("%.4f", "accuracy"), **numbers("%.1f", "wall seconds")}
        table(each, "Runs with accuracy on the test images, and the command for each", column_config=options)
        downloads(made, "provenance")


def _strip(shown: SuiteShown, name: str) -> None:
    """The images with the estimator's maps beside the controls', and what is left at each level."""
    strip = shown.strip
    if strip is None or name not in strip.planes:
        return
    st.subheader("On a fixed strip of test images")
    images = range(len(strip.numbers))
    st.text("untouched")
    _pictures([original(strip, i) for i in images], "untouched test image")
    for who in dict.fromkeys((name, *(control for control in CONTROLS if control in strip.planes))):
        st.text(f"map of {plain(who)}")
        _pictures([heat(strip, who, i) for i in images], f"map of {plain(who)}")
    for t in shown.table.levels:
        st.text(f"left at t = {t:g}")
        _pictures([degraded(strip, name, i, t) for i in images], f"what is left at t = {t:g}")


def _pictures(shown: list[Bytes], words: str) -> None:
    large = [enlarged(picture) for picture in shown]
    st.image(list(large), width=SIDE, alt=[f"{words}, number {i}" for i in range(1, len(large) + 1)])


def gallery(session: Session) -> None:
    """Images, estimators, levels."""
    strip = session.shown.strip
    if strip is None:
        st.info("This store has neither images and rankings nor a strip of them.")
        return
    if strip.damaged:
        st.text(damaged_rankings(strip.damaged))
    names = [name for name in session.names if name in strip.planes]
    numbers = [str(number) for number in strip.numbers]
    image = numbers.index(session.choose("Test image", numbers, "image"))
    chosen = session.choose_some("Estimators", names, "gallery", names[:3], what="estimator {} here")
    levels = [f"{t:g}" for t in session.shown.table.levels]
    kept = session.choose_some("Levels", levels, "levels", levels, what="level {} here")
    st.write(f"{session.shown.table.caption}.")
    st.write(
        "Maps are bright where features are removed first, as fine as the stored levels are. Removed features have the "
        f"mean colour of the training images. Unit {strip.layout.unit}."
    )
    shown = [("", "untouched", original(strip, image))]
    for name in chosen:
        left = [(name, f"left at t = {t}", degraded(strip, name, image, float(t))) for t in kept]
        shown += [(name, "map", heat(strip, name, image)), *left]
    for name in ("", *chosen):
        told = f"{plain(name)}: map, then what is left at t = {', '.join(kept)}" if name else "untouched"
        st.text(told)
        _pictures([picture for who, _, picture in shown if who == name], told)
    rows = [
        {"test image": strip.numbers[image], "estimator": plain(who), "shows": what, "picture": data_uri(made)}
        for who, what, made in shown
    ]
    downloads(rows, f"gallery-{session.slug}")


def claims(session: Session) -> None:
    """The paper's sentences, held against numbers."""
    st.text("What Hooker et al. 2019 claim. A claim holds where all its cells agree.")
    found = pages.claims([session.shown])
    for held in found:
        st.subheader(held.title)
        st.text(f"{held.caption}.")
        records(held.rows, held.title)
    rows = [{"table": held.title, "numbers are": held.caption, **row} for held in found for row in held.rows]
    downloads(rows, "claims")


def about(session: Session) -> None:
    """What this is."""
    for text in ABOUT:
        st.write(text)
    for place, found in zip(st.columns(2), toy_tables(), strict=True):
        with place:
            st.subheader(found.title)
            chart(charts.curve_chart(found), pages.figure_words(found))
            st.write(found.caption)
    downloads(curve_records(toy_tables()), "toy")
    st.header("What the benchmark does not show")
    st.write("\n".join(f"- {text}" for text in LIMITS))
    st.header("Protocols")
    st.write("\n".join(f"- {text}" for text in PROTOCOLS.values()))
    st.header("Columns")
    st.write("\n".join(f"- **{name}**: {COLUMNS[key]}" for key, name in HEADINGS.items()))
    st.header("How to submit")
    st.write(SUBMIT)
    st.header("How to cite")
    st.code(HOOKER.bibtex, language=None, wrap_lines=True)
    st.header("Changes")
    st.write("\n".join(f"- {day}: {text}" for day, text in CHANGES))


def runs(session: Session) -> None:
    """What is done and what is not, now."""
    _live_runs(session)
    st.subheader("Code and machines")
    for line in machines(session.shown.held):
        st.text(line)


@st.fragment(run_every=5)
def _live_runs(session: Session) -> None:
    """Read anew every few seconds, as long as the page is open."""
    session = replace(session, notes=st.container())  # a part of the page that runs alone writes to no other
    found = read_runs(session.reread()[session.slug].held, session.store)
    counts = count_runs(found)
    total = counts[-1]
    st.progress(int(total["done"]) / max(1, len(found)), f"{total['done']} of {len(found)} runs are done")
    table(counts, "Runs by protocol and state")
    state = session.choose("Runs that are", ["failed", "running", "missing", "done"], "state", what="state {} here")
    rows = [{"run": run.run, "state": run.state, "reason": run.reason} for run in found if run.state == state]
    if not rows:
        st.text("No run has failed." if state == "failed" else f"No run is {state}.")
    why = state == "failed"
    table([{"run": row["run"], **({"reason": row["reason"]} if why else {})} for row in rows], f"Runs that are {state}")
    downloads(rows, f"runs-{session.slug}-{state}")
