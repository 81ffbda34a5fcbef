"""The app's pages that show maps: of one estimator in all suites, and the gallery."""

import streamlit as st

from leaderboard import pages
from leaderboard.entry import command, profile, runs_of, shared
from leaderboard.gallery import SIDE, Bytes, data_uri, degraded, enlarged, heat, original
from leaderboard.rows import BoardRow
from leaderboard.session import (
    Session,
    download_buttons,
    number_columns,
    show_heading,
    show_records,
    show_table,
)
from leaderboard.snapshot import SuiteView
from leaderboard.text import (
    damaged_rankings,
    plain,
)
from roarbench.analysis.noisy_copies import kept_words
from roarbench.estimators import CONTROLS
from roarbench.report.validity_panel import legend


def entry(session: Session) -> None:
    """Show one estimator in all suites."""
    name = session.choose("Estimator", session.names, "estimator")
    session.set_title(name)
    about = profile(name, (view.suite_results for view in session.suites.values()))
    st.text(f"{about.about}." + (" A control: it never looks at the network." if about.control else ""))
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
    show_heading(view.suite_results.title)
    st.text(view.table.caption)
    noise = kept_words(view.suite_results.kept.get(row.estimator))
    for reason in (row.flag and f"Doubt: {row.flag}", row.gap and f"No place: {row.gap}", noise):
        if reason:
            st.text(reason)
    _maps(view, row.estimator)
    st.subheader("Validity panel")
    for title, rows in pages.validity(view, row.estimator):
        show_records(rows, title)
    st.text("; ".join(legend(view.panel)))
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
    st.text(f"{session.view.table.caption}.")
    st.text(
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
