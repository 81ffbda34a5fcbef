"""Stores that come with the repository: reading one leaves it as it is and puts nothing beside it."""

import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from roarbench.store.results import DEFAULT_FILE, ResultsStore, default_url
from tests.helpers.store_rows import make_result, make_run

ROOT = Path(__file__).parents[2]
WAL, ROLLBACK = b"\2\2", b"\1\1"  # bytes 18 and 19: https://sqlite.org/fileformat.html, section 1.3.3


def committed():
    """All databases of the repository; in a copy without git those of its folders."""
    try:
        command = ["git", "-C", str(ROOT), "ls-files", "*.sqlite"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        names = [str(path) for folder in ("demo", "studies") for path in (ROOT / folder).rglob("*.sqlite")]
    return [ROOT / name for name in names]


def journal(path):
    return path.read_bytes()[18:20]


@pytest.mark.parametrize("path", committed(), ids=lambda path: path.parent.name)
def test_reading_a_committed_store_leaves_no_file_behind(tmp_path, path):
    copy = Path(shutil.copy(path, tmp_path / DEFAULT_FILE))
    before = copy.read_bytes()
    with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
        assert len(store.results(store.keys(""))) > 0
    assert [file.name for file in tmp_path.iterdir()] == [DEFAULT_FILE]
    assert copy.read_bytes() == before


@pytest.mark.parametrize("own", [False, True])
def test_what_is_shipped_has_a_rollback_journal_and_all_rows(tmp_path, own):
    ship = import_module("make_demo").ship_results
    rows = {result.run.key: result for result in (make_result(make_run(seed)) for seed in range(3))}
    store = tmp_path / "store"
    with ResultsStore.open(default_url(store)) as worked_on:
        worked_on.add_all(rows.values())
    assert journal(store / DEFAULT_FILE) == WAL
    folder = store if own else tmp_path / "shipped"
    assert ship(store, folder) == folder / DEFAULT_FILE
    assert journal(folder / DEFAULT_FILE) == ROLLBACK
    with ResultsStore.open(default_url(folder), read_only=True) as shipped:
        assert shipped.results(shipped.keys("")) == rows
    assert [file.name for file in folder.iterdir()] == [DEFAULT_FILE]
