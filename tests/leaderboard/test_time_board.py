"""The stores that the board is timed on: the board shows them, and a large one takes few files."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
import time_board

from leaderboard.render import export
from leaderboard.views import Views, read_views
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.store.results import ResultsStore, default_url


@pytest.fixture
def views(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Views]:
    """Some suites of some rows, of few images."""
    suites, rows, seeds = request.param
    for name, value in (("IMAGES", 40), ("SUITE_COUNT", suites), ("SEEDS", seeds)):
        monkeypatch.setattr(time_board, name, value)
    with patch.dict(SUITES), patch.dict(VERSIONS), patch.dict(ESTIMATORS):
        time_board.fill(tmp_path, time_board.install(rows))
        with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
            yield read_views(store, tmp_path)


@pytest.mark.parametrize("views", [(2, 4, 5)], indirect=True)
def test_the_board_shows_what_it_is_timed_on(views: Views) -> None:
    assert list(views) == ["time-0-v2", "time-1-v2"]
    for view in views.values():
        assert [len(view.board.rows), len(view.results.results)] == [4, 4 * 5 * 5 + 5]


@pytest.mark.slow
@pytest.mark.parametrize("views", [(19, 40, 2)], indirect=True)
def test_19_suites_of_40_rows_are_half_as_many_files_as_they_were(views: Views, tmp_path: Path) -> None:
    export(views, tmp_path / "site")
    made = list((tmp_path / "site").iterdir())
    assert len(views) == 19 and len(made) <= 485 // 2
    assert (tmp_path / "site" / "index.html").read_text().count("<code>") == 40
