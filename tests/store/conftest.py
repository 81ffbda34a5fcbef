"""A second store of results."""

import pytest

from roarbench.store.results import ResultsStore


@pytest.fixture
def second(tmp_path):
    """Another one beside it."""
    with ResultsStore.open(f"sqlite:///{tmp_path}/second.sqlite") as store:
        yield store
