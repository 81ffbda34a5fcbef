"""`import` of results that the store had archived."""

import re
import shlex

import pytest

from roarbench.plan.change_suite import add_estimators_with_twins
from roarbench.plan.suites import SUITES
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.submissions import store_submission
from roarbench.submissions.parsed_file import parse_submission
from tests.helpers.board_store import make_store

SUBMISSION = parse_submission(b'NAME = "mine"\nDESCRIPTION = "zeros"\n')


@pytest.fixture
def exported(call, tmp_path):
    """Return a function that runs a command on a store whose results, with a submission, are in `all.parquet`."""
    suite = add_estimators_with_twins(SUITES["planted"], [SUBMISSION.id])
    make_store(tmp_path, suite, lambda point: point.seed == 0 and point.cell.t in (0.0, 0.5, 0.9), images=20)
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        store_submission(store.database, SUBMISSION)
    assert call("export", tmp_path / "all.parquet", "--store", tmp_path).code == 0
    return lambda *words: call(*words, "--store", tmp_path)


def count_results(folder):
    with ResultsStore.open(make_default_url(folder), read_only=True) as store:
        return len(store.list_result_keys(""))


def test_import_names_archived_results_and_how_to_archive_them_again(exported, call, tmp_path):
    before = count_results(tmp_path)
    assert exported("archive", SUBMISSION.id, "--why", "the wrong layer").code == 0
    rows = before - count_results(tmp_path)
    assert rows > 1
    *_, line = exported("import", tmp_path / "all.parquet").err.splitlines()
    assert line.startswith(
        f"archived before, and now back: {rows} results of {SUBMISSION.id} (the wrong layer); `roarbench "
    )
    assert count_results(tmp_path) == before
    (command,) = re.findall("`roarbench (.*)` archives them again$", line)
    assert call(*shlex.split(command)).code == 0
    assert count_results(tmp_path) == before - rows


def test_import_names_key_of_single_archived_result(exported, tmp_path):
    with ResultsStore.open(make_default_url(tmp_path), read_only=True) as store:
        stored = store.read_results(store.list_result_keys(""))
    key = next(key for key, result in stored.items() if result.run.cell.estimator == "truth")
    assert exported("archive", key, "--why", "a disk fault", "--yes").code == 0
    *_, line = exported("import", tmp_path / "all.parquet").err.splitlines()
    assert line.startswith("archived before, and now back: 1 result of truth (a disk fault); ")
    assert f"archive {key[:12]} --why 'a disk fault' --yes" in line and line.endswith("` archives it again")
    assert "archived before" not in exported("import", tmp_path / "all.parquet").err


def test_import_lists_keys_of_some_archived_results(exported, tmp_path):
    with ResultsStore.open(make_default_url(tmp_path), read_only=True) as store:
        stored = store.read_results(store.list_result_keys(""))
    keys = [key for key, result in stored.items() if result.run.cell.estimator == "random"]
    for key in keys[1:]:
        assert exported("archive", key, "--why", "x", "--yes").code == 0
    *_, line = exported("import", tmp_path / "all.parquet").err.splitlines()
    assert f"{len(keys) - 1} results of random (x); `" in line
    assert "archive KEY --why x --yes" in line and "` archives them again for each KEY of " in line
