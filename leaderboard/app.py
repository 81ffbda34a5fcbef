"""The leaderboard as a Streamlit app: the HTML of the static pages, rendered again when the store changes."""

import json
import os
from pathlib import Path

import streamlit as st

from leaderboard.page_cache import ASKED, Page, Shown, cache_page, read_cached_page, seen
from roarbench.errors import StoreError

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
    shown, query = Shown(*json.loads(os.environ[ASKED])), st.query_params.to_dict()
    page = (None if query else read_cached_page(shown)) or render_fresh_page(shown, query)
    st.set_page_config(page_title=f"{page.title} – roarbench")
    st.html(page.html)
    with st.container(horizontal=True):
        for name, content in page.files.items():
            st.download_button(name, content, file_name=name, on_click="ignore")
    seen.set()


def render_fresh_page(shown: Shown, query: dict[str, str]) -> Page:
    """Return the page of a query, or an explanation if the store lacks its results."""
    from leaderboard.links import PageNotFound, Site, make_address  # cached pages need none of these imports
    from leaderboard.render import list_addresses, render_message, render_page
    from leaderboard.views import find_live_store

    try:
        live = find_live_store(shown)
        views = live.views(waiting=not query)
        site = Site(views, list_addresses(views), live=True)
        page = render_page(site, make_address(**query))
    except (PageNotFound, StoreError) as error:
        return render_message(str(error), Site({}, live=True))
    page = page._replace(files={name: content.decode() for name, content in site.files.items()})
    if query:
        return page
    if not live.state:
        return page._replace(html=f"{page.html}<p class='rb fine'>The other suites are being read.</p>")
    cache_page(shown, live.state, page)
    return page


if __name__ == "__main__":
    main()
