"""The store that comes with the repository, and how results are added to such a store."""

from importlib import import_module
from pathlib import Path

import pytest

from leaderboard.pictures import Pictures, pictures_file, save_pictures
from leaderboard.views import read_views
from roarbench.plan.suites import VERSIONS, with_entries
from roarbench.store.entries import keep_entry
from roarbench.store.results import DEFAULT_FILE, ResultsStore, default_url
from roarbench.store.transfer import export_results, import_results
from roarbench.submissions.file import check_source
from tests.helpers.board_store import make_store

ROOT = Path(__file__).parents[2]
FIRST, SECOND = VERSIONS["quick", 1], VERSIONS["quick", 2]
FILE = b'NAME = "mine"\nDESCRIPTION = "mine"\n\ndef estimate(model, images, targets, generator):\n    return images\n'


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A shipped store of the first version, with pictures."""
    folder = tmp_path / "demo"
    make_store(folder, FIRST, images=20)
    with ResultsStore.open(default_url(folder), read_only=True) as store:
        first = read_views(store, folder)["quick-v1"].results
    made = Pictures((7,), "By hand.", 0.5, ("map", "own"), 64, ("grad",), (), {"grad": 2.0}, str.encode)
    save_pictures(made, pictures_file(first, folder))
    return folder


@pytest.mark.slow
def test_what_is_added_leaves_the_rest_as_it_was(demo: Path, tmp_path: Path) -> None:
    store, mine = tmp_path / "store", check_source(FILE)
    make_store(store, with_entries(SECOND, [mine.id]), images=20)
    with ResultsStore.open(default_url(store)) as worked_on:
        keep_entry(worked_on.database, mine)
        with ResultsStore.open(default_url(demo)) as theirs:
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


@pytest.mark.slow
def test_the_demo_is_run_here_from_committed_code_and_has_every_kind_of_doubt() -> None:
    folder = ROOT / "demo"
    with ResultsStore.open(default_url(folder), read_only=True) as store:
        views = read_views(store, folder)
        assert list(views) == ["quick-v6", "quick-matched-v3"]
        first = next(iter(views.values()))
        assert first.leading.name == "matched" and "roar" in {p.name for view in views.values() for p in view.protocols}
        for view in views.values():
            assert not view.results.doubts and not [run for run, (s, _) in view.states.items() if s == "missing"]
            assert not [r for r in view.results.results.values() if "dirty" in r.provenance.code_version]
        assert first.pictures and first.board.headline and first.board.roar_from
        shorts = {doubt.short for board in first.leading_boards for row in board.rows for doubt in row.doubts}
    assert any("of noisy copies" in short for short in shorts) and any(short.startswith("<") for short in shorts)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 6_000_000
