"""The board as a Streamlit app: opens the store read-only and lays out the same records as the static pages.

Text that came from outside reaches the page only through elements that show it as it is: dataframe, text, code, and
charts. Everything that is rendered as Markdown is written here.
"""

import os
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from leaderboard import views, views_more
from leaderboard.commands import STORE, URL
from leaderboard.session import Session
from leaderboard.shown import SuiteShown
from leaderboard.source import read_shelf
from leaderboard.words import EMPTY
from roarbench.errors import StoreError
from roarbench.store.results import ResultsStore

PAGES: dict[str, Callable[[Session], None]] = {
    "Board": views.board,
    "Curves": views.curves,
    "Entry": views_more.entry,
    "Compare": views.compare,
    "Gallery": views_more.gallery,
    "Cost": views.cost,
    "Claims": views_more.claims,
    "About": views_more.about,
    "Runs": views_more.runs,
}


@st.cache_resource
def _open(url: str) -> ResultsStore:
    return ResultsStore.open(url, read_only=True)


@st.cache_resource(max_entries=2, show_spinner="Reading the results")
def _suites(url: str, folder: str, state: str) -> dict[str, SuiteShown]:
    """All suites of a store in this state; results that come later have another state."""
    shelf = read_shelf(_open(url), Path(folder))
    return {slug: SuiteShown(held, shelf.folder, state) for slug, held in shelf.standings.items()}


def main() -> None:
    """One run of the page."""
    st.set_page_config(page_title="roarbench", layout="wide", initial_sidebar_state="collapsed")
    page = st.segmented_control("Page", list(PAGES), default="Board", required=True, key="page", bind="query-params")
    try:
        store = _open(os.environ[URL])
        suites = _suites(os.environ[URL], os.environ.get(STORE, "."), store.state())
    except StoreError as error:
        st.title("No store")
        st.text(str(error))
        return
    st.title(page)
    if not suites and page != "About":
        st.info(EMPTY)
        return
    slug = st.selectbox("Suite", list(suites), key="suite", bind="query-params") if suites else ""
    PAGES[str(page)](Session(store, suites, str(slug)))


if __name__ == "__main__":
    main()
