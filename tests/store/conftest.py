"""Fixtures: an empty results store on each kind of database, and a second store."""

import pytest

from roarbench.store.results import ResultsStore


@pytest.fixture
def store(store_url):
    """An empty results store, on SQLite and on PostgreSQL."""
    with ResultsStore.open(store_url) as store:
        yield store


@pytest.fixture
def second(tmp_path):
    """A second, empty SQLite store."""
    with ResultsStore.open(f"sqlite:///{tmp_path}/second.sqlite") as store:
        yield store
