"""A complete store of the quick suite, made once."""

from pathlib import Path

import pytest

from leaderboard.source import read_suites
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
def suites(quick_folder: Path) -> dict[str, SuiteResults]:
    with ResultsStore.open(f"sqlite:///{quick_folder}/results.sqlite", read_only=True) as store:
        return read_suites(store, quick_folder)


@pytest.fixture(scope="session")
def quick(suites: dict[str, SuiteResults]) -> SuiteResults:
    return suites["quick-v1"]
