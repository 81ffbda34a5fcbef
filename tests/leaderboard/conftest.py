"""A complete store of the quick suite, made once."""

from pathlib import Path

import pytest

from leaderboard.source import Shelf, read_shelf
from roarbench.analysis.boards import SuiteResults
from roarbench.plan.suites import VERSIONS
from roarbench.store.results import ResultsStore
from tests.helpers.board_store import make_store


@pytest.fixture(scope="session")
def quick_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quick")
    make_store(folder, VERSIONS["quick", 1])
    return folder


@pytest.fixture(scope="session")
def shelf(quick_folder: Path) -> Shelf:
    with ResultsStore.open(f"sqlite:///{quick_folder}/results.sqlite", read_only=True) as store:
        return read_shelf(store, quick_folder)


@pytest.fixture(scope="session")
def quick(shelf: Shelf) -> SuiteResults:
    return shelf.standings["quick-v1"]
