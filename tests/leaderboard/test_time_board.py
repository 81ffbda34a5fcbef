"""The store that the board is timed on is one that the board shows."""

from pathlib import Path
from unittest.mock import patch

import time_board

from leaderboard.views import read_views
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.store.results import ResultsStore, default_url


def test_the_board_shows_what_it_is_timed_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(time_board, "IMAGES", 40)
    monkeypatch.setattr(time_board, "SUITE_COUNT", 2)
    with patch.dict(SUITES), patch.dict(VERSIONS), patch.dict(ESTIMATORS):
        time_board.fill(tmp_path, time_board.install(4))
        with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
            views = read_views(store, tmp_path)
        assert list(views) == ["time-0-v2", "time-1-v2"]
        for view in views.values():
            assert [len(view.board.rows), len(view.results.results)] == [4, 4 * 5 * 5 + 5]
