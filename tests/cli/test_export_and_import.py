"""`import` of results that the store had archived."""

import re
import shlex

import pytest

from roarbench.plan.change_suite import add_estimators_with_twins
from roarbench.plan.suites import SUITES
from roarbench.store.results import ResultsStore
from roarbench.store.submissions import store_submission
from roarbench.submissions.submission_file import parse_submission
from tests.helpers.board_store import make_store
from tests.helpers.commands import read_results

SUBMISSION = parse_submission(b'NAME = "mine"\nDESCRIPTION = "zeros"\n')


@pytest.fixture
def url(tmp_path):
    """The URL of a store with results of a submission."""
    suite = add_estimators_with_twins(SUITES["planted"], [SUBMISSION.id])
    url = make_store(tmp_path, suite, lambda point: point.seed == 0 and point.cell.t in (0.0, 0.5, 0.9), images=20)
    with ResultsStore.open(url) as store:
        store_submission(store.database, SUBMISSION)
    return url


@pytest.fixture
def exported(call, url, tmp_path):
    """Return a function that runs a command on this store, whose results are in `all.parquet`."""
    assert call("export", tmp_path / "all.parquet", "--store", tmp_path).code == 0
    return lambda *words: call(*words, "--store", tmp_path)


def test_import_names_archived_results_and_how_to_archive_them_again(exported, call, url, tmp_path):
    before = len(read_results(url))
    assert exported("archive", SUBMISSION.id, "--why", "the wrong layer").code == 0
    rows = before - len(read_results(url))
    assert rows > 1
    *_, line = exported("import", tmp_path / "all.parquet").err.splitlines()
    said = f"archived before, and now back: {rows} results of {SUBMISSION.id} (the wrong layer); `roarbench "
    assert line.startswith(said)
    assert len(read_results(url)) == before
    (command,) = re.findall("`roarbench (.*)` archives them again$", line)
    assert call(*shlex.split(command)).code == 0
    assert len(read_results(url)) == before - rows


def test_import_names_key_of_single_archived_result(exported, url, tmp_path):
    key = next(key for key, result in read_results(url).items() if result.run.cell.estimator == "truth")
    assert exported("archive", key, "--why", "a disk fault", "--yes").code == 0
    *_, line = exported("import", tmp_path / "all.parquet").err.splitlines()
    assert line.startswith("archived before, and now back: 1 result of truth (a disk fault); ")
    assert f"archive {key[:12]} --why 'a disk fault' --yes" in line and line.endswith("` archives it again")
    assert "archived before" not in exported("import", tmp_path / "all.parquet").err


def test_import_lists_keys_of_some_archived_results(exported, url, tmp_path):
    keys = [key for key, result in read_results(url).items() if result.run.cell.estimator == "random"]
    for key in keys[1:]:
        assert exported("archive", key, "--why", "x", "--yes").code == 0
    *_, line = exported("import", tmp_path / "all.parquet").err.splitlines()
    assert f"{len(keys) - 1} results of random (x); `" in line
    assert "archive KEY --why x --yes" in line and "` archives them again for each KEY of " in line
