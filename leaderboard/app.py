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
from leaderboard.library import library
from leaderboard.session import Session
from leaderboard.words import EMPTY
from roarbench.errors import StoreError

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


# Streamlit writes white on the primary colour, which in the dark is too light for that
_STYLE = "<style>[data-testid=stMultiSelectTagsContainer] [data-tag] { background: #0b57a4 }</style>"


def main() -> None:
    """One run of the page."""
    st.set_page_config(page_title="roarbench", layout="wide", initial_sidebar_state="collapsed")
    st.html(_STYLE)
    page = st.segmented_control("Page", list(PAGES), required=True, key="page", bind="query-params") or "Board"
    try:
        books = library(os.environ[URL], Path(os.environ.get(STORE, ".")))
        suites = books.suites()
    except StoreError as error:
        st.title("No store")
        st.text(str(error))
        return
    st.title(page)
    if not suites and page != "About":
        st.info(EMPTY)
        return
    slug = st.selectbox("Suite", list(suites), key="suite", bind="query-params") if suites else ""
    PAGES[str(page)](Session(books.store, suites, str(slug), books.suites))


if __name__ == "__main__":
    main()
