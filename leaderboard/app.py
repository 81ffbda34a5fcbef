"""The leaderboard as a Streamlit app: the HTML of the static pages, rendered again when the store changes."""

import json
import os
from pathlib import Path

import streamlit as st

from leaderboard.first_page_cache import SELECTION_VARIABLE, ShownStore, first_page_shown, read_cached_page

TEMPLATES = Path(__file__).parent / "templates"
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
    shown, query = ShownStore(*json.loads(os.environ[SELECTION_VARIABLE])), st.query_params.to_dict()
    page = None if query else read_cached_page(shown)
    if page is None:
        from leaderboard.render import render_live_page  # imported here, because a cached page does not need it

        page = render_live_page(shown, query)
    st.set_page_config(page_title=f"{page.title} – roarbench")
    st.html(page.html)
    with st.container(horizontal=True):
        for name, content in page.files.items():
            st.download_button(name, content, file_name=name, on_click="ignore")
    first_page_shown.set()


if __name__ == "__main__":
    main()
