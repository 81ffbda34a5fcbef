"""What the pages of one visit share, and the small pieces that several of them lay out.

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
from leaderboard.snapshot import SuiteShown
from leaderboard.text import plain
from roarbench.store.results import ResultsStore

Width = int | Literal["stretch"]  # pixels, or all that there are

_AROUND = 170  # pixels for axis and legend: here a chart's height is that of all it has, not of its plot


@dataclass(frozen=True, eq=False)
class Session:
    """One run of a page.

    Attributes:
        store: Opened read-only.
        suites: All that it holds, by slug.
        slug: The one that is looked at.
        reread: All suites as the store is now, for what is shown live.
        head: Where the page says what it is.
        notes: Where the page says what it does not know.
    """

    store: ResultsStore
    suites: Mapping[str, SuiteShown]
    slug: str
    reread: Callable[[], Mapping[str, SuiteShown]]
    head: DeltaGenerator
    notes: DeltaGenerator

    @property
    def shown(self) -> SuiteShown:
        """The suite that is looked at."""
        return self.suites[self.slug]

    @property
    def names(self) -> list[str]:
        """Ids of its rows, by gain."""
        return [entry.estimator for entry in self.shown.table.entries]

    def name(self, title: str) -> None:
        """Say what the page is, at its top and in the browser."""
        st.set_page_config(page_title=f"{title} - roarbench")
        self.head.html(part("title", title))

    def choose(
        self,
        label: str,
        options: Sequence[str],
        key: str,
        first: str = "",
        width: Width = "stretch",
        what: str = "",
    ) -> str:
        """One of several, kept in the address; `first` is shown where the address asks for none."""
        first = first or options[0]
        st.session_state[key] = asked(self.notes, key, options, first, what or f"{label.lower()} {{}} here")
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
        """Some of several, kept in the address."""
        wanted = [name for name in st.query_params.get_all(key) if name] if key in st.query_params else list(first)
        for name in wanted:
            if name not in options:
                unknown = (what or f"{label.lower()} {{}} here").format(repr(plain(name)))
                tell(self.notes, f"There is no {unknown}; it is left out.")
        st.session_state[key] = [name for name in wanted if name in options]
        how: dict[str, Any] = {"key": key, "on_change": _keep, "args": (key, list(first)), "width": width}
        return list(st.multiselect(label, options, format_func=plain, placeholder="none" if first else "all", **how))


def asked(notes: DeltaGenerator, key: str, known: Sequence[str], first: str, what: str) -> str:
    """What the address asks for under a key, if that is one of `known`; else `first`, and a sentence that says so.

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
    tell(notes, f"There is no {what.format(repr(plain(name)))}; shown: {plain(first)}.")
    return first


def tell(notes: DeltaGenerator, text: str) -> None:
    """A sentence that no reader should miss."""
    notes.html(part("told", text))


def _keep(key: str, first: list[str]) -> None:
    """Write a choice into the address, unless it is what is shown anyway; an entry of the browser's history."""
    value = st.session_state[key]
    chosen = value if isinstance(value, list) else [value]
    if chosen == first:
        st.query_params.pop(key, None)
    else:
        st.query_params[key] = chosen or ""


def search(label: str, key: str) -> str:
    """Words to look for, kept in the address."""
    st.session_state[key] = st.query_params.get(key, "")
    return st.text_input(label, key=key, on_change=_keep, args=(key, [""]))


def link(**choices: str | Sequence[str]) -> str:
    """An address within the app."""
    return "?" + urlencode(choices, doseq=True)


def here(**choices: str) -> str:
    """The address of this view with some choices changed; empty ones are left out."""
    now = {key: st.query_params.get_all(key) for key in st.query_params} | choices
    return link(**{key: value for key, value in now.items() if value})


def part(name: str, *values: Any) -> str:
    """One of the parts that both boards share, as HTML that shows all text as text."""
    return str(getattr(templates().get_template("parts.html").module, name)(*values))


def records(rows: Records, name: str) -> None:
    """Records whose texts a reader wants whole."""
    if rows:
        st.html(part("records", rows, name))


def table(rows: Records, name: str, **options: Any) -> None:
    """Many records as a table that sorts, with a name for those who do not see it."""
    if rows:
        shown = pd.DataFrame(rows).rename(columns=lambda key: key.replace("_", " "))
        st.dataframe(shown, hide_index=True, alt=name, **options)


def numbers(form: str, *headings: str) -> dict[str, Any]:
    """How columns of numbers are written."""
    return {heading: st.column_config.NumberColumn(format=form) for heading in headings}


def chart(drawn: alt.LayerChart, words: str) -> None:
    """A figure, and in words what it shows."""
    height = int(drawn.height) + _AROUND
    st.altair_chart(drawn, width="stretch", height=height, alt=words[:500])


def downloads(rows: Records, stem: str, files: Mapping[str, str] | None = None) -> None:
    """What is shown, as files: CSV and JSON of the records, or these by ending."""
    if not rows:
        return
    with st.container(horizontal=True):
        for ending, text in (files or {"csv": to_csv(rows), "json": to_json(rows)}).items():
            name = f"{stem}.{ending}"
            st.download_button(ending.upper(), text, file_name=name, key=f"download-{name}", on_click="ignore")
