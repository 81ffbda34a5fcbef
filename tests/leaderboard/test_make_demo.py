"""The store that comes with the repository, and how results are added to such a store."""

from importlib import import_module
from pathlib import Path

import pytest

from leaderboard.gallery import gallery_file, save_gallery
from leaderboard.source import read_suites
from roarbench.plan.suites import VERSIONS, with_entries
from roarbench.store.entries import keep_entry
from roarbench.store.results import DEFAULT_FILE, ResultsStore, default_url
from roarbench.store.transfer import export_results, import_results
from roarbench.submissions.file import check_source
from tests.helpers.board_store import made_gallery, make_store

ROOT = Path(__file__).parents[2]
FIRST, SECOND = VERSIONS["quick", 1], VERSIONS["quick", 2]
FILE = b'NAME = "mine"\nDESCRIPTION = "mine"\n\ndef estimate(model, images, targets, generator):\n    return images\n'


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A shipped store of the first version, with a gallery."""
    folder = tmp_path / "demo"
    make_store(folder, FIRST, images=20)
    with ResultsStore.open(default_url(folder), read_only=True) as store:
        first = read_suites(store, folder)["quick-v1"]
    save_gallery(made_gallery(first), gallery_file(first, folder))
    return folder


def test_what_is_added_leaves_the_rest_as_it_was(demo: Path, tmp_path: Path) -> None:
    store, mine = tmp_path / "store", check_source(FILE)
    make_store(store, with_entries(SECOND, [mine.id]), images=20)
    with ResultsStore.open(default_url(store)) as worked_on:
        keep_entry(worked_on.database, mine)
        with ResultsStore.open(default_url(demo)) as theirs:
            export_results(theirs, tmp_path / "first.parquet")
        import_results(worked_on, tmp_path / "first.parquet")  # where they are self-reported
    before = {path.name: path.read_bytes() for path in (demo / "strips").iterdir()}
    import_module("make_demo").main(store, demo, add=True)
    with ResultsStore.open(default_url(demo), read_only=True) as shipped:
        found = read_suites(shipped, demo)
    assert list(found) == ["quick-v2", "quick-v1"]
    assert all(suite_results.complete and not suite_results.doubts for suite_results in found.values())
    assert found["quick-v2"].submissions[mine.id].source == FILE
    assert {path.name: path.read_bytes() for path in (demo / "strips").iterdir()} == before
    assert sorted(path.name for path in demo.iterdir()) == [DEFAULT_FILE, "strips"]
    assert (demo / DEFAULT_FILE).read_bytes()[18:20] == b"\1\1"  # a rollback journal


def test_the_demo_has_both_versions_of_quick_all_verified() -> None:
    folder = ROOT / "demo"
    with ResultsStore.open(default_url(folder), read_only=True) as store:
        found = read_suites(store, folder)
    assert list(found) == ["quick-v2", "quick-v1"]
    for suite_results in found.values():
        assert suite_results.complete and not suite_results.doubts
        assert gallery_file(suite_results, folder).is_file()
    assert list({name.partition("@")[0] for name in found["quick-v2"].submissions}) == ["input-x-gradient"]
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 3_000_000
