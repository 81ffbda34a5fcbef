"""Two stores of results."""

import pytest

from roarbench.store.results import ResultsStore


@pytest.fixture
def store(store_url):
    """One on each kind of database."""
    with ResultsStore.open(store_url) as store:
        yield store


@pytest.fixture
def second(tmp_path):
    """A file beside it."""
    with ResultsStore.open(f"sqlite:///{tmp_path}/second.sqlite") as store:
        yield store
