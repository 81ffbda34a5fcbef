"""The board as a Streamlit app: the HTML of the static pages, rendered anew when the store changes."""

import os
from pathlib import Path

import streamlit as st

from leaderboard.commands import DATA, REFERENCE, STORE, URL
from leaderboard.links import AppLinks, Asked, NotThere, from_query
from leaderboard.render import TEMPLATES, known, message, render
from leaderboard.source import Selection
from leaderboard.views import live_store
from roarbench.errors import StoreError

LOOK = 3.0  # seconds between two looks for new results


def main() -> None:
    """Show the page that the address asks for."""
    st.set_page_config(layout="wide", initial_sidebar_state="collapsed")
    for name in ("board.css", "app.css"):
        st.html(TEMPLATES / name)
    scripts = "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("board.js", "app.js"))
    st.html(f"<script>{scripts}</script>", unsafe_allow_javascript=True)
    show()


@st.fragment(run_every=LOOK)
def show() -> None:
    """Show it as the store is now; text from outside is escaped by the templates."""
    links = AppLinks()
    asked = from_query({name: st.query_params[name] for name in st.query_params})
    try:
        selection = Selection(os.environ.get(DATA, ""), os.environ.get(REFERENCE, ""))
        live = live_store(os.environ[URL], Path(os.environ.get(STORE, ".")), selection)
        views = live.views()
        title, html = render(Asked(asked, views, links, known(views)))
        live.shown.set()
    except (NotThere, StoreError) as error:
        title, html = message(str(error), links)
    st.set_page_config(page_title=f"{title} – roarbench")
    st.html(html)
    with st.container(horizontal=True):
        for name, content in links.files.items():
            st.download_button(name, content, file_name=name, on_click="ignore")


if __name__ == "__main__":
    main()
