"""Rows that were looked at: noted once, kept for ever, told by suite and version of the data."""

from dataclasses import replace
from pathlib import Path

import pytest

from roarbench.store import schema
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.watched import WatchedRow, note_watched, watched_rows

ROW = WatchedRow("quick v2", "da7a", None, "", "common", "grad", 3)


@pytest.fixture
def store(tmp_path: Path):
    with ResultsStore.open(default_url(tmp_path)) as store:
        yield store


def test_what_was_noted_is_told_of_its_suite_and_data_alone(store: ResultsStore):
    others = [
        replace(ROW, suite="quick v1"),
        replace(ROW, data="d47a"),
        replace(ROW, limit=500),
        replace(ROW, given="x@1"),
    ]
    note_watched(store.database, [ROW, replace(ROW, estimator="ig"), *(replace(each, looks=9) for each in others)])
    note_watched(store.database, [ROW])
    note_watched(store.database, [])
    found = watched_rows(store.database, "quick v2", "da7a", None, "")
    assert found == {("common", "grad"): 3, ("common", "ig"): 3}
    assert watched_rows(store.database, "quick v2", "da7a", 500, "") == {("common", "grad"): 9}


def test_a_store_from_before_it_has_none(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/old.sqlite"
    with ResultsStore.open(url) as store, store.database.write() as connection:
        schema.watched.drop(connection)
    with ResultsStore.open(url, read_only=True) as store:
        assert watched_rows(store.database, "quick v2", "da7a", None, "") == {}
