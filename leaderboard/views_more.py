"""Pages of the app beside the numbers: one estimator, pictures, claims, runs and what all this is."""

from dataclasses import replace

import streamlit as st

from leaderboard import content, figures, pictures
from leaderboard.curves import curve_records
from leaderboard.entries import command, machines, profile, runs_of, shared
from leaderboard.papers import HOOKER
from leaderboard.runs import count_runs, read_runs
from leaderboard.session import Session, chart, downloads, numbers, records, table
from leaderboard.shown import SuiteShown
from leaderboard.strip import Bytes
from leaderboard.tables import Entry
from leaderboard.toyfigure import toy_tables
from leaderboard.words import ABOUT, CHANGES, COLUMNS, HEADINGS, LIMITS, PROTOCOLS, SUBMIT, damaged_rankings, plain
from roarbench.estimators import CONTROLS
from roarbench.report.validity import legend


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
    boards = content.entry_boards(list(session.suites.values()), name)
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
    for title, rows in content.validity(shown, row.estimator):
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
    _pictures([pictures.original(strip, i) for i in images], "untouched test image")
    for who in dict.fromkeys((name, *(control for control in CONTROLS if control in strip.planes))):
        st.text(f"map of {plain(who)}")
        _pictures([pictures.heat(strip, who, i) for i in images], f"map of {plain(who)}")
    for t in shown.table.levels:
        st.text(f"left at t = {t:g}")
        _pictures([pictures.degraded(strip, name, i, t) for i in images], f"what is left at t = {t:g}")


def _pictures(shown: list[Bytes], words: str) -> None:
    large = [pictures.enlarged(picture) for picture in shown]
    st.image(list(large), width=pictures.SIDE, alt=[f"{words}, number {i}" for i in range(1, len(large) + 1)])


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
    shown = [("", "untouched", pictures.original(strip, image))]
    for name in chosen:
        left = [(name, f"left at t = {t}", pictures.degraded(strip, name, image, float(t))) for t in kept]
        shown += [(name, "map", pictures.heat(strip, name, image)), *left]
    for name in ("", *chosen):
        told = f"{plain(name)}: map, then what is left at t = {', '.join(kept)}" if name else "untouched"
        st.text(told)
        _pictures([picture for who, _, picture in shown if who == name], told)
    rows = [
        {"test image": strip.numbers[image], "estimator": plain(who), "shows": what, "picture": pictures.data_uri(made)}
        for who, what, made in shown
    ]
    downloads(rows, f"gallery-{session.slug}")


def claims(session: Session) -> None:
    """The paper's sentences, held against numbers."""
    st.text("What Hooker et al. 2019 claim. A claim holds where all its cells agree.")
    found = content.claims([session.shown])
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
            chart(figures.curve_chart(found), content.figure_words(found))
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
