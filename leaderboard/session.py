"""The state of one visit to the app, kept in the address, and the elements that several pages share.

The address holds every choice: a run of the script reads it, a choice writes it, and so back, forward and a copied link
show the same view. Links that `leaderboard/assets/app.js` follows are HTML; text from outside is escaped in it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode

import altair as alt
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from leaderboard.downloads import Records, templates, to_csv, to_json
from leaderboard.snapshot import SuiteView
from leaderboard.text import plain
from roarbench.store.results import ResultsStore

Width = int | Literal["stretch"]  # pixels, or all that there are

_AROUND = 170  # pixels for axis and legend: Streamlit's height of a chart is that of all it has, not of its plot


@dataclass(frozen=True, eq=False)
class Session:
    """One visit to a page.

    Attributes:
        store: Opened read-only.
        suites: All that it holds, by slug.
        slug: Of the suite that is looked at.
        reread: All suites as the store is now, for what is shown live.
        head: Where the title stands.
        notes: Where the page says what the address asks for and the store does not have.
    """

    store: ResultsStore
    suites: Mapping[str, SuiteView]
    slug: str
    reread: Callable[[], Mapping[str, SuiteView]]
    head: DeltaGenerator
    notes: DeltaGenerator

    @property
    def view(self) -> SuiteView:
        """Return the suite that is looked at."""
        return self.suites[self.slug]

    @property
    def names(self) -> list[str]:
        """Return the ids of its estimators: the rows of the first board by gain, then those of others alone."""
        return [entry.estimator for entry in self.view.entries]

    def set_title(self, title: str) -> None:
        """Show the page's title, at its top and in the browser."""
        st.set_page_config(page_title=f"{title} - roarbench")
        self.head.html(render_part("title", title))

    def choose(
        self,
        label: str,
        options: Sequence[str],
        key: str,
        first: str = "",
        width: Width = "stretch",
        what: str = "",
    ) -> str:
        """Ask for one of several, kept in the address; `first` is shown where the address asks for none."""
        first = first or options[0]
        st.session_state[key] = from_address(self.notes, key, options, first, what or f"{label.lower()} {{}} here")
        how: dict[str, Any] = {"key": key, "on_change": _keep, "args": (key, [first]), "width": width}
        return str(st.selectbox(label, options, format_func=plain, **how))

    def choose_some(
        self,
        label: str,
        options: Sequence[str],
        key: str,
        first: Sequence[str] = (),
        width: Width = "stretch",
        what: str = "",
    ) -> list[str]:
        """Ask for some of several, kept in the address."""
        wanted = [name for name in st.query_params.get_all(key) if name] if key in st.query_params else list(first)
        for name in wanted:
            if name not in options:
                unknown = (what or f"{label.lower()} {{}} here").format(repr(plain(name)))
                warn(self.notes, f"There is no {unknown}; it is left out.")
        st.session_state[key] = [name for name in wanted if name in options]
        how: dict[str, Any] = {"key": key, "on_change": _keep, "args": (key, list(first)), "width": width}
        return list(st.multiselect(label, options, format_func=plain, placeholder="none" if first else "all", **how))


def from_address(notes: DeltaGenerator, key: str, known: Sequence[str], first: str, what: str) -> str:
    """Return what the address asks for under a key if that is one of `known`; else say so and return `first`.

    Args:
        notes: Where it is said.
        key: Of the address.
        known: What there is.
        first: What is shown where the address asks for nothing.
        what: The name in its context, such as `level {} under KAR`.
    """
    name = st.query_params.get(key) or first
    if name in known:
        return name
    warn(notes, f"There is no {what.format(repr(plain(name)))}; shown: {plain(first)}.")
    return first


def warn(notes: DeltaGenerator, text: str) -> None:
    """Show a sentence that no reader should miss."""
    notes.html(render_part("warning", text))


def _keep(key: str, first: list[str]) -> None:
    """Write a choice into the address, unless it is what is shown anyway; an entry of the browser's history."""
    value = st.session_state[key]
    chosen = value if isinstance(value, list) else [value]
    if chosen == first:
        st.query_params.pop(key, None)
    else:
        st.query_params[key] = chosen or ""


def search_box(label: str, key: str) -> str:
    """Ask for words to look for, kept in the address."""
    st.session_state[key] = st.query_params.get(key, "")
    return st.text_input(label, key=key, on_change=_keep, args=(key, [""]))


def link(**choices: str | Sequence[str]) -> str:
    """Return an address within the app."""
    return "?" + urlencode(choices, doseq=True)


def this_page(**choices: str) -> str:
    """Return the address of this page with some choices changed; empty ones are left out."""
    now = {key: st.query_params.get_all(key) for key in st.query_params} | choices
    return link(**{key: value for key, value in now.items() if value})


def render_part(name: str, *values: Any) -> str:
    """Return one of the parts that both boards share, as HTML that shows all text as text."""
    return str(getattr(templates().get_template("parts.html").module, name)(*values))


def show_heading(text: str) -> None:
    """Show a heading that may hold names from outside."""
    st.html(render_part("subtitle", text))


def show_records(rows: Records, name: str) -> None:
    """Show records whose texts a reader wants whole."""
    if rows:
        st.html(render_part("records", rows, name))


def show_table(rows: Records, name: str, **options: Any) -> None:
    """Show many records as a table that sorts, with a name for those who do not see it."""
    if rows:
        frame = pd.DataFrame(rows).rename(columns=lambda key: key.replace("_", " "))
        st.dataframe(frame, hide_index=True, alt=name, **options)


def number_columns(form: str, *headings: str) -> dict[str, Any]:
    """Return the format of columns of numbers."""
    return {heading: st.column_config.NumberColumn(format=form) for heading in headings}


def show_chart(drawn: alt.LayerChart, words: str) -> None:
    """Show a figure, and in words what it shows."""
    height = int(drawn.height) + _AROUND
    st.altair_chart(drawn, width="stretch", height=height, alt=words[:500])


def download_buttons(rows: Records, stem: str, files: Mapping[str, str] | None = None) -> None:
    """Offer what is shown as files: CSV and JSON of the records, or these by ending."""
    if not rows:
        return
    with st.container(horizontal=True):
        for ending, text in (files or {"csv": to_csv(rows), "json": to_json(rows)}).items():
            name = f"{stem}.{ending}"
            st.download_button(ending.upper(), text, file_name=name, key=f"download-{name}", on_click="ignore")
