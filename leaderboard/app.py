"""The board as a Streamlit app: opens the store read-only and lays out the same records as the static pages.

Text that came from outside reaches the page only through elements that show it as it is: dataframe, text, code, charts,
and HTML of templates that escape. Everything that is rendered as Markdown is written here.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import streamlit as st

from leaderboard import app_board, app_entry, app_pages
from leaderboard.commands import DATA, REFERENCE, STORE, URL
from leaderboard.downloads import ASSETS
from leaderboard.session import Session, from_address, link, render_part
from leaderboard.snapshot import live_snapshot
from leaderboard.source import Selection
from leaderboard.text import EMPTY
from roarbench.errors import StoreError

PAGES: dict[str, Callable[[Session], None]] = {
    "Board": app_board.board,
    "Curves": app_pages.curves,
    "Entry": app_entry.entry,
    "Compare": app_pages.compare,
    "Gallery": app_entry.gallery,
    "Cost": app_pages.cost,
    "Claims": app_pages.claims,
    "About": app_pages.about,
    "Runs": app_pages.runs,
}


_SUITE = 480  # pixels of the list of suites


def main() -> None:
    """Show the page that the address asks for."""
    st.set_page_config(layout="wide", initial_sidebar_state="collapsed")
    for name in ("parts.css", "app.css"):
        st.html(ASSETS / name)
    st.html(f"<script>{(ASSETS / 'app.js').read_text(encoding='utf-8')}</script>", unsafe_allow_javascript=True)
    head, notes = st.container(), st.container()
    page = from_address(notes, "page", list(PAGES), "Board", "page {} here")
    try:
        selection = Selection(os.environ.get(DATA, ""), os.environ.get(REFERENCE, ""))
        snapshot = live_snapshot(os.environ[URL], Path(os.environ.get(STORE, ".")), selection)
        suites = snapshot.suites()
    except StoreError as error:
        head.html(render_part("title", "No store"))
        st.text(str(error))
        return
    session = Session(snapshot.store, suites, st.query_params.get("suite", ""), snapshot.suites, head, notes)
    if suites and page != "About":  # which belongs to no suite
        session = replace(session, slug=session.choose("Suite", list(suites), "suite", width=_SUITE))
    head.html(render_part("nav", link(), [(name, link(page=name, suite=session.slug)) for name in PAGES], page))
    if page == "About" or not suites:
        session.set_title(page)
    elif page not in ("Entry", "Compare"):  # whose titles say what they show
        session.set_title(f"{session.view.suite_results.title}: {page}")
    if not suites and page != "About":
        st.info(EMPTY)
        return
    PAGES[page](session)


if __name__ == "__main__":
    main()
