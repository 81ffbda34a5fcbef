"""What the pages of one visit share, and the small pieces that several of them lay out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from leaderboard.formats import Records, to_csv, to_json
from leaderboard.shown import SuiteShown
from leaderboard.words import plain
from roarbench.store.results import ResultsStore

_AROUND = 170  # pixels for axis and legend: here a chart's height is that of all it has, not of its plot


@dataclass(frozen=True, eq=False)
class Session:
    """One run of a page.

    Attributes:
        store: Opened read-only.
        suites: All that it holds, by slug.
        slug: The one that is looked at.
        reread: All suites as the store is now, for what is shown live.
    """

    store: ResultsStore
    suites: Mapping[str, SuiteShown]
    slug: str
    reread: Callable[[], Mapping[str, SuiteShown]]

    @property
    def shown(self) -> SuiteShown:
        """The suite that is looked at."""
        return self.suites[self.slug]

    @property
    def names(self) -> list[str]:
        """Ids of its rows, by gain."""
        return [entry.estimator for entry in self.shown.table.entries]


def choose(label: str, options: Sequence[str], key: str, default: str | None = None) -> str:
    """One of several, kept in the address."""
    index = list(options).index(default) if default and default in options else 0
    return str(st.selectbox(label, options, index=index, format_func=plain, key=key, bind="query-params"))


def choose_some(label: str, options: Sequence[str], key: str, default: Sequence[str] = ()) -> list[str]:
    """Some of several, kept in the address."""
    return list(st.multiselect(label, options, default=list(default), format_func=plain, key=key, bind="query-params"))


def table(records: Records, name: str, **options: Any) -> None:
    """Records as a table that sorts, with a name for those who do not see it."""
    if records:
        shown = pd.DataFrame(records).rename(columns=lambda key: key.replace("_", " "))
        st.dataframe(shown, hide_index=True, alt=name, **options)


def numbers(form: str, *headings: str) -> dict[str, Any]:
    """How columns of numbers are written."""
    return {heading: st.column_config.NumberColumn(format=form) for heading in headings}


def chart(drawn: alt.LayerChart, words: str) -> None:
    """A figure, and in words what it shows."""
    height = int(drawn.height) + _AROUND
    st.altair_chart(drawn, width="stretch", height=height, alt=words[:500])


def downloads(records: Records, stem: str, more: Mapping[str, str] | None = None) -> None:
    """What is shown, as files."""
    if not records:
        return
    kinds = {"csv": to_csv(records), "json": to_json(records), **(more or {})}
    with st.container(horizontal=True):
        for ending, text in kinds.items():
            name = f"{stem}.{ending}"
            st.download_button(ending.upper(), text, file_name=name, key=f"download-{name}", on_click="ignore")
