"""The pages of the app, one function each."""

from dataclasses import replace

import streamlit as st

from leaderboard import charts, pages
from leaderboard.compare import comparison_records
from leaderboard.curves import (
    POINTS_TABLE,
    PUBLISHED,
    UNRETRAINED,
    ProbabilityTable,
    above_masks_table,
    curve_records,
    curve_tables,
    probability_table,
    toy_tables,
)
from leaderboard.downloads import board_files, board_records
from leaderboard.entry import command, machines, profile, runs_of, shared
from leaderboard.filters import RISING, SORTS, Filter, filter_rows
from leaderboard.gallery import SIDE, Bytes, data_uri, degraded, enlarged, heat, original
from leaderboard.papers import HOOKER
from leaderboard.rows import BoardRow, BoardTable
from leaderboard.session import (
    Session,
    download_buttons,
    from_address,
    link,
    number_columns,
    render_part,
    search_box,
    show_chart,
    show_records,
    show_table,
    this_page,
)
from leaderboard.snapshot import SuiteView
from leaderboard.source import count_runs, protocols, read_runs, units
from leaderboard.text import (
    ABOUT,
    CHANGES,
    COLUMNS,
    HEADINGS,
    LIMITS,
    PROTOCOLS,
    SUBMIT,
    capital,
    damaged_rankings,
    plain,
    protocol_name,
)
from roarbench.analysis.noisy_copies import kept_words
from roarbench.estimators import CONTROLS
from roarbench.report.validity import legend
from roarbench.terms import SHOWN, Unit
from roarbench.text import interval

_CHARTED = 30  # rows that the chart of gains has at most
_BESIDE = 3  # figures in a row
_NARROW = 170  # pixels of one of several lists of choices in a row


def board(session: Session) -> None:
    """Show the board: one row per estimator."""
    wanted, whole, level = _choices(session)
    shown = filter_rows(whole, wanted)
    st.write(f"{PROTOCOLS[shown.protocol]}. {shown.caption}.")
    count, kept = len(shown.rows), f"{len(shown.rows)} of {whole.whole} rows"
    st.text(f"{kept}. Places are among the rows shown." if shown.gained else f"{kept}.")
    if count:
        _rows(session, shown, whole, wanted)
    else:
        st.info("No row passes these filters.")
    if any(entry.gain.value is not None for entry in shown.rows):
        first = replace(shown, rows=shown.rows[:_CHARTED])
        show_chart(charts.gain_chart(first), f"{pages.gain_title(shown)} with intervals, {kept}")
        cut = f" Only the first {_CHARTED} rows are drawn." if count > _CHARTED else ""
        st.write(f"Bars are 95% intervals; {pages.bar_lines(shown)}.{cut}")
    st.write(shown.footnote)
    download_buttons(board_records(shown), shown.stem + (f"-{level}" if level else ""), board_files(shown))
    if SHOWN[shown.protocol] in UNRETRAINED:
        _probabilities(probability_table(session.view.suite_results, SHOWN[shown.protocol], shown.unit))


def _probabilities(found: ProbabilityTable) -> None:
    """Show how the probability of the predicted class falls, for all rows."""
    if found.records:
        st.subheader(found.title)
        st.write(found.explanation)
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
        what = f"level {{}} under {protocol_name(protocol.name)}"
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


def curves(session: Session) -> None:
    """Show gain or accuracy against level, several protocols side by side."""
    others = [name for name in session.names if name not in CONTROLS]
    chosen = session.choose_some("Estimators", others, "curves", others[:5], what="estimator {} here")
    what = "published data set {} here"
    added = session.choose("Add the paper's curves", ["none", *PUBLISHED], "published", what=what)
    tables = curve_tables(
        session.view.suite_results, session.view.curve_boards, chosen, "" if added == "none" else added
    )
    st.write(pages.better_words(tables))
    drawn = [table for table in tables if table.drawn]
    for three in (drawn[i : i + _BESIDE] for i in range(0, len(drawn), _BESIDE)):
        for place, found in zip(st.columns(len(three)), three, strict=True):
            with place:
                st.subheader(protocol_name(found.protocol))
                show_chart(charts.curve_chart(found), pages.figure_words(found))
                st.write(pages.curve_caption(found))
    if above := above_masks_table(session.view.evidence, session.view.roar_caption, chosen):
        tables = [*tables, above]
        st.subheader("ROAR, above masks alone")
        show_chart(charts.curve_chart(above), pages.figure_words(above))
        st.write(pages.curve_caption(above))
    for found in tables:
        if not found.drawn:
            st.text(pages.level_words(found))
    st.write(
        "The controls are always shown, in grey. Published curves are dashed; they are of another data set and network."
    )
    points = curve_records(tables)
    with st.expander("The same numbers as a table"):
        options = {"column_config": number_columns("%.3f", "value", "low", "high")}
        show_table(points, POINTS_TABLE, **options)
    download_buttons(points, f"curves-{session.slug}")


def compare(session: Session) -> None:
    """Show two estimators compared on the same test images."""
    names = [entry.estimator for entry in session.view.table.rows]
    left, right = st.columns(2)
    with left:
        first = session.choose("First", names, "first", what="estimator {} here")
    with right:
        second = session.choose("Second", names, "second", names[min(1, len(names) - 1)], what="estimator {} here")
    session.set_title(f"{first} against {second}")
    found = session.view.compare(first, second) if first != second else None
    if found is None:
        st.info("Choose two different estimators.")
        return
    if found.gain.value is not None:
        st.text(
            f"{found.gain_name} of {plain(first)} minus that of {plain(second)}: {interval(found.gain)} accuracy points"
        )
    st.write(f"{found.caption}. {found.reading}")
    if found.levels:
        show_chart(charts.comparison_chart(found), f"{capital(found.heading)}, per level. {found.caption}")
        st.html(render_part("comparison", found, f"{plain(first)} against {plain(second)}"))
        st.write("The examples are numbers of test images.")
    download_buttons(comparison_records(found), f"compare-{session.slug}")


def cost(session: Session) -> None:
    """Show gain against the cost of the maps."""
    view = session.view
    priced = pages.cost_table(view.table)
    st.write(f"{view.table.caption}. Seconds are processor seconds for the maps of 1,000 images.")
    if not priced.points:
        st.info("This store does not say how long the importance maps took.")
        return
    show_chart(charts.cost_chart(view.table), priced.summary)
    st.text(priced.summary)
    show_records(priced.rows, f"{pages.gain_title(view.table)} in accuracy points, and cost")
    download_buttons(priced.points, f"cost-{session.slug}")


def entry(session: Session) -> None:
    """Show one estimator in all suites."""
    name = session.choose("Estimator", session.names, "estimator")
    session.set_title(name)
    about = profile(name, (view.suite_results for view in session.suites.values()))
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
    show_records(boards, "Its row in each suite, gains in accuracy points")
    download_buttons(boards, "entry")
    found = [row for row in session.view.entries if row.estimator == name]
    if found:
        _in_suite(session.view, found[0])


def _in_suite(view: SuiteView, row: BoardRow) -> None:
    st.header(view.suite_results.title)
    st.write(view.table.caption)
    noise = kept_words(view.suite_results.kept.get(row.estimator))
    for reason in (row.flag and f"Doubt: {row.flag}", row.gap and f"No place: {row.gap}", noise):
        if reason:
            st.text(reason)
    _maps(view, row.estimator)
    st.subheader("Validity panel, of ROAR")
    for title, rows in pages.validity(view, row.estimator):
        show_records(rows, title)
    st.write("; ".join(legend(view.panel)))
    st.subheader("Reproduce")
    st.code(command(view.suite_results, row.estimator), language=None, wrap_lines=True)
    made = runs_of(view.suite_results, row.estimator)
    same, each = shared(made)
    with st.expander(f"Provenance of its {len(made)} runs, with a command that repeats each and compares"):
        for key, value in same.items():
            st.text(f"{key}: {value}")
        options = {**number_columns("%.4f", "accuracy"), **number_columns("%.1f", "wall seconds")}
        show_table(each, "Runs with accuracy on the test images, and the command for each", column_config=options)
        download_buttons(made, "provenance")


def _maps(view: SuiteView, name: str) -> None:
    """Show the images, the maps of the estimator and the controls, and what is left at each level."""
    images = view.gallery
    if images is None or name not in images.planes:
        return
    st.subheader("On fixed test images")
    numbers = range(len(images.numbers))
    st.text("untouched")
    _pictures([original(images, i) for i in numbers], "untouched test image")
    for who in dict.fromkeys((name, *(control for control in CONTROLS if control in images.planes))):
        st.text(f"map of {plain(who)}")
        _pictures([heat(images, who, i) for i in numbers], f"map of {plain(who)}")
    for t in view.table.levels:
        st.text(f"left at t = {t:g}")
        _pictures([degraded(images, name, i, t) for i in numbers], f"what is left at t = {t:g}")


def _pictures(pictures: list[Bytes], words: str) -> None:
    large = [enlarged(picture) for picture in pictures]
    st.image(list(large), width=SIDE, alt=[f"{words}, number {i}" for i in range(1, len(large) + 1)])


def gallery(session: Session) -> None:
    """Show images with maps and what is left, for a choice of estimators and levels."""
    images = session.view.gallery
    if images is None:
        st.info("This store has no images and rankings, and no gallery of them.")
        return
    if images.damaged:
        st.text(damaged_rankings(images.damaged))
    names = [name for name in session.names if name in images.planes]
    numbers = [str(number) for number in images.numbers]
    image = numbers.index(session.choose("Test image", numbers, "image"))
    chosen = session.choose_some("Estimators", names, "gallery", names[:3], what="estimator {} here")
    levels = [f"{t:g}" for t in session.view.table.levels]
    kept = session.choose_some("Levels", levels, "levels", levels, what="level {} here")
    st.write(f"{session.view.table.caption}.")
    st.write(
        "Maps are bright where features are removed first, as fine as the stored levels are. Removed features have the "
        f"mean colour of the training images. Unit {images.layout.unit}."
    )
    shown = [("", "untouched", original(images, image))]
    for name in chosen:
        left = [(name, f"left at t = {t}", degraded(images, name, image, float(t))) for t in kept]
        shown += [(name, "map", heat(images, name, image)), *left]
    for name in ("", *chosen):
        caption = f"{plain(name)}: map, then what is left at t = {', '.join(kept)}" if name else "untouched"
        st.text(caption)
        _pictures([picture for who, _, picture in shown if who == name], caption)
    rows = [
        {"test image": images.numbers[image], "estimator": plain(who), "shows": what, "picture": data_uri(made)}
        for who, what, made in shown
    ]
    download_buttons(rows, f"gallery-{session.slug}")


def claims(session: Session) -> None:
    """Show the paper's claims tested on its numbers and on ours."""
    st.text("What Hooker et al. 2019 claim. A claim holds where all its cells agree.")
    found = pages.claims([session.view])
    for table in found:
        st.subheader(table.title)
        st.text(f"{table.caption}.")
        show_records(table.rows, table.title)
    rows = [{"table": table.title, "numbers are": table.caption, **row} for table in found for row in table.rows]
    download_buttons(rows, "claims")


def about(session: Session) -> None:
    """Show what the benchmark is."""
    for text in ABOUT:
        st.write(text)
    for place, found in zip(st.columns(2), toy_tables(), strict=True):
        with place:
            st.subheader(found.title)
            show_chart(charts.curve_chart(found), pages.figure_words(found))
            st.write(pages.curve_caption(found))
    download_buttons(curve_records(toy_tables()), "toy")
    st.header("Limitations")
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
    """Show which runs are done and which are not, now."""
    _live_runs(session)
    st.subheader("Code and machines")
    for line in machines(session.view.suite_results):
        st.text(line)


@st.fragment(run_every=5)
def _live_runs(session: Session) -> None:
    """Show the runs, read again every few seconds as long as the page is open."""
    session = replace(session, notes=st.container())  # a fragment writes to no other part of the page
    found = read_runs(session.reread()[session.slug].suite_results, session.store)
    counts = count_runs(found)
    total = counts[-1]
    st.progress(int(total["done"]) / max(1, len(found)), f"{total['done']} of {len(found)} runs are done")
    show_table(counts, "Runs by protocol and state")
    state = session.choose("Runs that are", ["failed", "running", "missing", "done"], "state", what="state {} here")
    rows = [{"run": run.run, "state": run.state, "reason": run.reason} for run in found if run.state == state]
    if not rows:
        st.text("No run has failed." if state == "failed" else f"No run is {state}.")
    why = state == "failed"
    show_table(
        [{"run": row["run"], **({"reason": row["reason"]} if why else {})} for row in rows], f"Runs that are {state}"
    )
    download_buttons(rows, f"runs-{session.slug}-{state}")
