"""Commands on single runs: `runs` and `reproduce`."""

import re
from collections import Counter
from pathlib import Path

import pytest

from roarbench.cli import terminal
from roarbench.common.errors import StoreError
from roarbench.datasets import open_decoded
from roarbench.plan.planned_runs import build_run, list_planned_runs
from roarbench.plan.suite_changes import add_estimators_with_twins
from roarbench.plan.suites import SUITES
from roarbench.store import rankings
from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers.board_store import make_store, results
from tests.helpers.command_line import PART, SMALL, read_refusal, record
from tests.helpers.older_suites import OLDER
from tests.helpers.processes import read_results
from tests.helpers.store_rows import list_result_keys

pytestmark = pytest.mark.slow

MINE = "mine@12345678"


def list_runs(call, store, *words):
    return record(call, "runs", *SMALL, "--store", store, *words)


def show_run(call, store, key):
    return record(call, "runs", key, "--store", store)


def read_table_rows(call, store):
    return {row["estimator"]: row for row in record(call, "table", *SMALL, "--store", store)["rows"]}


def record_failed_run(store, reason="died of it"):
    """Record that a run of a submission failed; return its key."""
    with ResultsStore.open(make_default_url(store)) as results:
        row = next(iter(results.read_results(list_result_keys(results)).values()))
        suite = add_estimators_with_twins(SUITES["planted"], [MINE])
        points = (point for point in list_planned_runs(suite) if point.cell.estimator == MINE)
        run = build_run(suite, next(points), row.run.data, row.run.limit)
        results.failures.record_runs_failed_until_retry([run], reason)
    return run.key


@pytest.mark.parametrize("words", [("runs",), ("compare", "truth", "random", "--protocol", "kar")])
def test_lines_are_broken_between_words_in_a_terminal_alone(call, made, monkeypatch, words):
    whole = call(*words, *SMALL, "--store", made).out
    monkeypatch.setattr(terminal.PlainConsole, "is_terminal", True)
    monkeypatch.setattr(terminal.out, "_width", 40)
    broken = call(*words, *SMALL, "--store", made).out
    assert max(map(len, whole.splitlines())) > 40 >= max(map(len, broken.splitlines()))
    assert re.sub("\n {4,}", " ", broken) == whole


def test_runs_shows_state_of_each_run(call, made):
    found = {row["key"]: row for row in list_runs(call, made)}
    assert len(found) == 62
    done = read_results(make_default_url(made))
    assert {key for key, row in found.items() if row["state"] == "done"} == set(done)
    for key, result in done.items():
        cell, row = result.run.cell, found[key]
        assert (row["estimator"], row["t"], row["seed"]) == (cell.estimator, cell.t, result.run.seed)
    lines = call("runs", *SMALL, "--store", made).out.splitlines()
    assert lines[0] == f"{[*found][0][:12]}  done     roar none t=0 scalar seed 0"
    assert len(lines) == 62


def test_runs_finds_run_by_key_prefix(call, made):
    keys = [row["key"] for row in list_runs(call, made) if row["state"] == "done"]
    assert show_run(call, made, keys[0])["rankings"] == {"checksum": None, "weights": None, "folders": []}
    key = next(row["key"] for row in list_runs(call, made, "--estimators", "truth") if row["key"] in keys)
    found = show_run(call, made, key[:10])
    result = read_results(make_default_url(made))[key]
    assert (found["key"], found["state"], found["origin"]) == (key, "done", "verified")
    assert found["record"]["cell"]["estimator"] == "truth" and found["record"]["recipe"] == "planted@1"
    assert (found["outcome"]["correct"], found["outcome"]["total"]) == (result.correct, 8)
    assert found["provenance"]["versions"] == result.provenance.versions
    (folder,) = found["rankings"]["folders"]
    assert found["rankings"]["checksum"] == result.rankings
    assert Path(folder).parts[-1].startswith("truth-scalar-") and (Path(folder) / "manifest.json").exists()
    assert folder in call("runs", key[:10], "--store", made).out
    ((twice, _),) = Counter(key[0] for key in keys).most_common(1)  # 21 keys share 16 first digits
    assert f"runs have a key that begins with '{twice}'" in read_refusal(call, "runs", twice, "--store", made)


def test_unknown_run_error_suggests_runs(call, made):
    for words, seen in (
        (("runs", "zz"), "no run in this store has a key that begins with 'zz'"),
        (("reproduce", "zz"), "no run in this store has a key that begins with 'zz'"),
        (("runs", "sobel", "--archive", "bad"), "this store has no results of sobel"),
    ):
        advice = f"`roarbench runs --suite NAME --store {made}` lists the runs of a suite"
        assert read_refusal(call, *words, "--store", made) == f"roarbench: {seen}; {advice}\n"


def test_archive_removes_failed_submission_with_reason(call, store):
    key = record_failed_run(store)
    assert read_table_rows(call, store)[MINE]["gain"] is None
    assert show_run(call, store, key)["failures"][0]["reason"] == "died of it"
    assert "--archive takes a reason" in read_refusal(call, "runs", MINE, "--store", store, "--archive", " ")
    wrong = read_refusal(call, "runs", "mien", "--archive", "typed wrongly", "--store", store)
    assert f"did you mean '{MINE}'?" in wrong
    assert show_run(call, store, key)["state"] == "failed"
    answer = call("runs", "mine", "--archive", "the wrong layer", "--store", store)
    assert (answer.code, answer.out) == (0, "")
    affected = f"{SUITES['planted'].dataset} with {SUITES['planted'].model}, 8 images: 1 run"
    assert answer.err.startswith(f"taken off the boards: no results and 1 failure of {MINE} ({affected});")
    assert MINE not in read_table_rows(call, store)
    found = show_run(call, store, key)
    assert (found["state"], found["failures"], found["outcome"]) == ("archived", [], None)
    (note,) = found["archived"]
    assert (note["what"], note["reason"]) == ("failure, died of it", "the wrong layer")


def test_status_prints_advice_for_failure(call, store):
    """An unchanged file fails again, so it is archived; a time-out is retried. `table` says the same."""
    for kind, advice in (
        ("not-finite", f"take this row off the board: `roarbench runs {MINE} --archive faulty --store"),
        ("time", "failed runs are repeated only after `roarbench retry --suite planted"),
    ):
        reason = f"rank {MINE} test 0 failed: {kind}: of 2 of 8 images (3, 7)"
        record_failed_run(store, reason)
        for name in ("status", "table"):
            *_, said, helps = call(name, *SMALL, "--store", store).out.splitlines()
            assert said == f"failed: roar {MINE} t=0.1 scalar seed 0: {reason}"
            assert advice in helps


def test_retry_names_added_rows_that_run_would_leave_out(call, store):
    """`run` alone said that all runs were done, and the submission's runs stayed missing."""
    record_failed_run(store)
    answer = call("retry", *SMALL, "--store", store)
    assert " 1 failed run " in f" {answer.err}"
    assert f"`roarbench run --submission FILE --suite planted --store {store} --max-images 8` starts them" in answer.err


def test_archived_rows_of_builtin_estimator_are_computed_again(call, store):
    before = read_table_rows(call, store)
    assert call("runs", "truth", "--archive", "to see", "--store", store).code == 0
    assert [row["state"] for row in list_runs(call, store)].count("done") == 1 + 10
    assert read_table_rows(call, store)["truth"]["gain"] is None
    assert call("run", *PART, "--store", store).code == 0
    assert read_table_rows(call, store) == before
    done = next(row["key"] for row in list_runs(call, store, "--estimators", "truth") if row["state"] == "done")
    assert (show_run(call, store, done)["state"], len(show_run(call, store, done)["archived"])) == ("done", 1)


def test_reproduce_repeats_run_with_options_of_its_command(call, store):
    """Neither the fill nor the number of seeds is the suite's own, and another command ran it."""
    options = ("--fill", "black", "--seeds", "2", "--protocol", "roar", "--store", store)
    assert call("run", *SMALL, "--estimators", "truth", *options).code == 0
    done = read_results(make_default_url(store))
    runs = {key: row.run for key, row in done.items()}
    cells = {(run.cell.estimator, run.cell.fill, run.cell.t, run.seed): key for key, run in runs.items()}
    key = cells["truth", "zero", 0.5, 1]
    assert show_run(call, store, key)["plan"]["protocol"] == "roar"
    assert "reference_recipe planted@1" in call("runs", key, "--store", store).out
    assert call("reproduce", key, "--store", store).out.startswith("equal:")


def test_reproduce_of_trusted_row_requires_trust_submission(tmp_path, call):
    name = "mine@0123abcd~trusted~cuda"
    suite = add_estimators_with_twins(OLDER["quick@1"], [name])
    with ResultsStore.open(make_store(tmp_path, suite, lambda point: point.cell.estimator == name, 60)) as store:
        told = call("reproduce", list_result_keys(store)[0], "--store", tmp_path)
    assert (told.code, told.out) == (2, "")
    assert f"{name} runs without the sandbox, with your rights" in " ".join(told.err.split())
    assert "--trust-submission" in told.err


def test_archive_names_data_networks_and_image_counts(call, tmp_path):
    make_store(tmp_path, SUITES["planted"])
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        store.add_results(made for made in results(SUITES["planted"], limit=40).values() if made.run.seed == 0)
    kind = f"{SUITES['planted'].dataset} with {SUITES['planted'].model}"
    said = f"{kind}: 20 runs; {kind}, 40 images: 10 runs"
    told = call("runs", "truth", "--archive", "x", "--store", tmp_path).err
    assert f"taken off the boards: 30 results and no failures of truth ({said});" in told


@pytest.mark.parametrize("words", [(), ("--check-files",)])
def test_check_files_option_hashes_whole_files(store, call, monkeypatch, words):
    asked = []

    def refuse(path, noted, description, remedy, whole):
        asked.append((path.suffix, whole))
        raise StoreError("it was altered")

    monkeypatch.setattr(open_decoded, "refuse_altered_file", refuse)
    monkeypatch.setattr(rankings, "refuse_altered_file", refuse)
    assert call("run", *SMALL, "--estimators", "truth", "--seeds", "2", "--store", store, *words).code == 2
    assert {*asked} == {(".bin", bool(words)), (".arrow", bool(words))}


@pytest.mark.parametrize("words", [("--data", "nowhere"), ("--submission", "nowhere.py")])
def test_rejected_run_creates_no_store(call, tmp_path, words):
    read_refusal(call, "run", "--suite", "quick", "--store", tmp_path / "a" / "store", *words)
    assert not (tmp_path / "a").exists()
