"""The leaderboard as a Streamlit app: the HTML of the static pages, rendered again when the store changes."""

import json
import os
from pathlib import Path
from threading import Event
from typing import NamedTuple

import streamlit as st

from leaderboard.links import PageNotFound, Site
from leaderboard.render import TEMPLATES, Page, render_live_page, render_message
from leaderboard.stored_suites import SHOWN_VARIABLE, collect_views, read_views_of_suite
from leaderboard.suite_view import SuiteView
from roarbench.common.errors import StoreError
from roarbench.plan.suite import SuiteSpec
from roarbench.store.results import ResultsStore

LOOK = 3.0  # seconds between checks for new results


def main() -> None:
    """Show the page of the current address."""
    st.set_page_config(layout="wide", initial_sidebar_state="collapsed")
    for name in ("board.css", "app.css"):
        st.html(TEMPLATES / name)
    st.html(f"<script>{(TEMPLATES / 'board.js').read_text('utf-8')}</script>", unsafe_allow_javascript=True)
    show_page()


@st.fragment(run_every=LOOK)
def show_page() -> None:
    """Show the current state of the store; templates escape external text."""
    page = make_page(st.query_params.to_dict())
    st.set_page_config(page_title=f"{page.title} – roarbench")
    st.html(page.html)
    with st.container(horizontal=True):
        for name, make in page.files.items():  # made while the page is shown; Streamlit loses functions at each look
            st.download_button(name, make().decode(), file_name=name, on_click="ignore")


def make_page(query: dict[str, str]) -> Page:
    """Make a page of all suites; a visitor's first view needs fewer suites until the server has read all once."""
    url, folder = json.loads(os.environ[SHOWN_VARIABLE])
    first_page_only = not (query or "shown" in st.session_state or find_event_of_reading().is_set())
    st.session_state["shown"] = True
    try:
        views, all_read = collect_views(
            open_store(url), lambda suite: read_suite(url, folder, suite).views, first_page_only
        )
        if all_read:
            find_event_of_reading().set()
        return render_live_page(views, query, all_read)
    except (PageNotFound, StoreError) as error:
        return render_message(str(error), Site({}, live=True))


class ReadSuite(NamedTuple):
    """The views of a suite, and the stamp of the results on the suite's data set and network when they were read."""

    views: list[SuiteView]
    network: tuple[str, str, str]  # URL of the database, data set, and name of the network
    stamp: str


@st.cache_resource
def find_event_of_reading() -> Event:
    """Return the event that is set when this server has read all suites."""
    return Event()


@st.cache_resource(show_spinner=False)
def open_store(url: str) -> ResultsStore:
    return ResultsStore.open(url, read_only=True)


@st.cache_data(ttl=1.0, show_spinner=False)  # suites on one network have the same stamp
def read_stamp(url: str, dataset: str, model: str) -> str:
    return open_store(url).read_change_stamp_of_network(dataset, model)


def has_current_results(read: ReadSuite) -> bool:
    return read.stamp == read_stamp(*read.network)


@st.cache_resource(show_spinner=False, validate=has_current_results, hash_funcs={SuiteSpec: hash})
def read_suite(url: str, folder: str, suite: SuiteSpec) -> ReadSuite:
    """Read a suite, and again after a change; its views keep their boards, tables and pictures."""
    network = url, suite.dataset, suite.model
    stamp = read_stamp(*network)  # read before the results, so that it differs after a later write
    return ReadSuite(read_views_of_suite(open_store(url), suite, Path(folder)), network, stamp)


if __name__ == "__main__":
    main()
