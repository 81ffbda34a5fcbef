"""Stores made once, what the pages show of them, and a site of the first one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leaderboard.render import export
from leaderboard.views import SuiteView, read_views
from roarbench.analysis.boards import SuiteResults
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.board_store import make_store


@pytest.fixture(scope="session")
def quick_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both versions of `quick`, the newer on few images, and a suite that has begun."""
    folder = tmp_path_factory.mktemp("quick")
    make_store(folder, VERSIONS["quick", 1])
    make_store(folder, VERSIONS["quick", 2], images=300)
    make_store(folder, SUITES["planted"], lambda point: point.cell.estimator != "truth-inverted", images=100)
    return folder


@pytest.fixture(scope="session")
def quick(views: dict[str, SuiteView]) -> SuiteResults:
    return views["quick-v1"].results


@pytest.fixture(scope="session")
def views(quick_folder: Path) -> Iterator[dict[str, SuiteView]]:
    with ResultsStore.open(default_url(quick_folder), read_only=True) as store:
        yield dict(read_views(store, quick_folder))


@pytest.fixture(scope="session")
def site(views: dict[str, SuiteView], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without pictures for links, a third of its time: test_share.py draws one."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leaderboard.page.board.card", lambda *_: b"a picture")
        export(views, folder)
    return folder
