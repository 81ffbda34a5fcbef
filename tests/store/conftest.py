"""A store of results in a folder of the test."""

import pytest

from roarbench.store.results import ResultsStore, default_url


@pytest.fixture
def store(tmp_path):
    with ResultsStore.open(default_url(tmp_path)) as store:
        yield store


@pytest.fixture
def second(tmp_path):
    """Another one beside it."""
    with ResultsStore.open(f"sqlite:///{tmp_path}/second.sqlite") as store:
        yield store
