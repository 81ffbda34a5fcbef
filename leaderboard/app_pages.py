"""The pages of the app but the board and those with maps, one function each."""

from dataclasses import replace

import streamlit as st

from leaderboard import charts, pages
from leaderboard.compare import comparison_records
from leaderboard.curves import (
    POINTS_TABLE,
    PUBLISHED,
    above_masks_table,
    curve_records,
    curve_tables,
    toy_tables,
)
from leaderboard.entry import machines
from leaderboard.papers import HOOKER
from leaderboard.session import (
    Session,
    download_buttons,
    number_columns,
    render_part,
    show_chart,
    show_heading,
    show_records,
    show_table,
)
from leaderboard.source import count_runs, read_runs
from leaderboard.text import (
    ABOUT,
    CHANGES,
    COLUMNS,
    HEADINGS,
    LIMITS,
    SUBMIT,
    capital,
    plain,
)
from roarbench.estimators import CONTROLS
from roarbench.protocols import SHOWN
from roarbench.text import interval

_BESIDE = 3  # figures in a row


def curves(session: Session) -> None:
    """Show gain or accuracy against level, several protocols side by side."""
    others = [name for name in session.names if name not in CONTROLS]
    chosen = session.choose_some("Estimators", others, "curves", others[:5], what="estimator {} here")
    what = "published data set {} here"
    added = session.choose("Add the paper's curves", ["none", *PUBLISHED], "published", what=what)
    tables = curve_tables(
        session.view.suite_results, session.view.curve_boards, chosen, "" if added == "none" else added
    )
    st.text(pages.better_words(tables))
    drawn = [table for table in tables if table.drawn]
    for three in (drawn[i : i + _BESIDE] for i in range(0, len(drawn), _BESIDE)):
        for place, found in zip(st.columns(len(three)), three, strict=True):
            with place:
                st.subheader(SHOWN[found.protocol].title)
                show_chart(charts.curve_chart(found), pages.figure_words(found))
                st.text(pages.curve_caption(found))
    if above := above_masks_table(session.view.evidence, session.view.roar_caption, chosen):
        tables = [*tables, above]
        st.subheader("ROAR, above masks alone")
        show_chart(charts.curve_chart(above), pages.figure_words(above))
        st.text(pages.curve_caption(above))
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
    st.text(f"{found.caption}. {found.reading}")
    if found.levels:
        show_chart(charts.comparison_chart(found), f"{capital(found.heading)}, per level. {found.caption}")
        st.html(render_part("comparison", found, f"{plain(first)} against {plain(second)}"))
        st.write("The examples are numbers of test images.")
    download_buttons(comparison_records(found), f"compare-{session.slug}")


def cost(session: Session) -> None:
    """Show gain against the cost of the maps."""
    view = session.view
    priced = pages.cost_table(view.table)
    st.text(f"{view.table.caption}. Seconds are processor seconds for the maps of 1,000 images.")
    if not priced.points:
        st.info("This store does not say how long the importance maps took.")
        return
    show_chart(charts.cost_chart(view.table), priced.summary)
    st.text(priced.summary)
    show_records(priced.rows, f"{pages.gain_title(view.table)} in accuracy points, and cost")
    download_buttons(priced.points, f"cost-{session.slug}")


def claims(session: Session) -> None:
    """Show the paper's claims tested on its numbers and on ours."""
    st.text("What Hooker et al. 2019 claim. A claim holds where all its cells agree.")
    found = pages.claims([session.view])
    for table in found:
        show_heading(table.title)
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
            show_heading(found.title)
            show_chart(charts.curve_chart(found), pages.figure_words(found))
            st.text(pages.curve_caption(found))
    download_buttons(curve_records(toy_tables()), "toy")
    st.header("Limitations")
    st.write("\n".join(f"- {text}" for text in LIMITS))
    st.header("Protocols")
    st.write("\n".join(f"- {protocol.about}" for protocol in SHOWN.values()))
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
