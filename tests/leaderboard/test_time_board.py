"""The stores that the board is timed on: the board shows them, and a large one takes few files."""

from unittest.mock import patch

import pytest
import time_board

from leaderboard.render import export
from leaderboard.views import read_views
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.store.results import ResultsStore, default_url


@pytest.mark.slow
def test_19_suites_of_40_rows_are_shown_in_half_as_many_files_as_they_were(tmp_path, monkeypatch):
    for name, value in (("IMAGES", 40), ("SUITE_COUNT", 19), ("SEEDS", 2)):
        monkeypatch.setattr(time_board, name, value)
    with patch.dict(SUITES), patch.dict(VERSIONS), patch.dict(ESTIMATORS):
        time_board.fill(tmp_path, time_board.install(40))
        with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
            views = read_views(store, tmp_path)
            export(views, tmp_path / "site")
    assert list(views)[:2] == ["time-0-v2", "time-1-v2"] and len(views) == 19
    for view in views.values():
        assert [len(view.board.rows), len(view.results.results)] == [40, 40 * 5 * 2 + 2]
    assert len(list((tmp_path / "site").iterdir())) <= 485 // 2
    assert (tmp_path / "site" / "index.html").read_text().count("<code>") == 40
