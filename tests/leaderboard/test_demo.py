"""The store that comes with the repository, how results are added to it, and the one that the board is timed on."""

from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest
import time_board

from leaderboard.pictures import Pictures, pictures_file, save_pictures
from leaderboard.render import export
from leaderboard.views import read_views
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.suites import SUITES, VERSIONS, with_entries
from roarbench.store.entries import keep_entry
from roarbench.store.results import DEFAULT_FILE, ResultsStore, default_url
from roarbench.store.transfer import export_results, import_results
from roarbench.submissions.file import check_source
from tests.helpers.board_store import make_store

pytestmark = pytest.mark.slow

FIRST, SECOND = VERSIONS["quick", 1], VERSIONS["quick", 2]
FILE = b'NAME = "mine"\nDESCRIPTION = "mine"\n\ndef estimate(model, images, targets, generator):\n    return images\n'


def test_what_is_added_leaves_the_rest_as_it_was(tmp_path):
    """A shipped store of the first version, with pictures, and one of the second with a submission."""
    demo, store, mine = tmp_path / "demo", tmp_path / "store", check_source(FILE)
    make_store(demo, FIRST, images=20)
    make_store(store, with_entries(SECOND, [mine.id]), images=20)
    with ResultsStore.open(default_url(store)) as worked_on, ResultsStore.open(default_url(demo)) as theirs:
        made = Pictures((7,), "By hand.", 0.5, ("map", "own"), 64, ("grad",), (), {"grad": 2.0}, str.encode)
        save_pictures(made, pictures_file(read_views(theirs, demo)["quick-v1"].results, demo))
        keep_entry(worked_on.database, mine)
        export_results(theirs, tmp_path / "first.parquet")
        import_results(worked_on, tmp_path / "first.parquet")  # where they are self-reported
    before = {path.name: path.read_bytes() for path in (demo / "pictures").iterdir()}
    import_module("make_demo").main(store, demo, add=True)
    with ResultsStore.open(default_url(demo), read_only=True) as shipped:
        found = {slug: view.results for slug, view in read_views(shipped, demo).items()}
    assert list(found) == ["quick-v2", "quick-v1"]
    assert all(suite_results.complete and not suite_results.doubts for suite_results in found.values())
    assert found["quick-v2"].submissions[mine.id].source == FILE
    assert {path.name: path.read_bytes() for path in (demo / "pictures").iterdir()} == before
    assert {path.name for path in demo.iterdir()} == {DEFAULT_FILE, "pictures"}
    assert (demo / DEFAULT_FILE).read_bytes()[18:20] == b"\1\1"  # a rollback journal


def test_the_demo_is_run_here_from_committed_code_and_has_every_kind_of_doubt():
    folder = Path(__file__).parents[2] / "demo"
    with ResultsStore.open(default_url(folder), read_only=True) as store:
        views = read_views(store, folder)
        assert list(views) == ["quick-v6", "quick-matched-v3"]
        first = views["quick-v6"]
        assert first.leading.name == "matched" and "roar" in {p.name for view in views.values() for p in view.protocols}
        for view in views.values():
            assert not view.results.doubts and not [run for run, (s, _) in view.states.items() if s == "missing"]
            assert not [r for r in view.results.results.values() if "dirty" in r.provenance.code_version]
        assert first.pictures and first.board.headline and first.board.roar_from
        shorts = {doubt.short for board in first.leading_boards for row in board.rows for doubt in row.doubts}
    assert any("of noisy copies" in short for short in shorts) and any(short.startswith("<") for short in shorts)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 6_000_000


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
