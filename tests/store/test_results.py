"""Rows of the results store, and their provenance: code version, libraries and hardware."""

import subprocess
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from roarbench.common.errors import StoreError
from roarbench.store import run_result
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.run_result import Provenance, RunResult, pack_correctness
from tests.helpers.store_rows import ORIGIN, make_result, make_run


def test_stored_row_has_expected_columns(tmp_path):
    """Another program reads these columns from the SQLite file."""
    run = make_run(seed=4, t=0.3)
    moment = datetime(2026, 1, 2, 5, 4, 5, 600, tzinfo=timezone(timedelta(hours=2)))
    result = RunResult(run, 3, 10, bytes([0b10100000, 0b01000000]), 2.5, ORIGIN, created=moment)
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        store.add_results([result])
        with store.database.begin_read() as connection:
            row = connection.exec_driver_sql("SELECT * FROM results").mappings().one()
    assert row == {
        "key": run.key,
        "record": '{"cell":{"dataset":"planted","estimator":"var-grad","fill":"mean","model":"resnet8","order":"lerf",'
        '"retrain":"masks","t":0.3,"unit":"pixel"},"data":"da7a","estimator":"e571","recipe":"fast@1",'
        '"reference":"4ef","seed":4}',
        **{"dataset": "planted", "model": "resnet8", "estimator": "var-grad", "order": "lerf", "retrain": "masks"},
        **{"fill": "mean", "unit": "pixel", "t": 0.3, "seed": 4, "recipe": "fast@1", "data": "da7a"},
        **{"estimator_fingerprint": "e571", "reference": "4ef", "rankings": "", "weights": ""},
        **{"correct": 3, "total": 10, "bits": b"\xa0\x40", "seconds": 2.5},
        **{"probability": None, "smoothness": None, "loss": None},
        "code_version": "0.1.0 1a2b3c4",
        "versions": '{"python": "3.11.7", "torch": "2.13.0"}',
        "hardware": '{"cpu": "some", "cores": 2}',
        "created": "2026-01-02 03:04:05.000600",
    }
    assert result.correctness.tolist() == [True, False, True] + [False] * 6 + [True]
    assert pack_correctness(result.correctness) == result.bits


def test_run_result_rejects_contradicting_counts_and_bits():
    for correct, total, bits, probability in (
        (2, 8, b"\x80", None),  # fewer bits than correct answers
        (1, 8, b"\x80\x00", None),  # a byte too many
        (1, 3, b"\x08", None),  # set beyond the last image
        (0, 0, b"", None),  # no images
        (1, 2, b"\x80", b"\0" * 4),  # one probability for two images
    ):
        with pytest.raises(ValueError, match="packed|correct|probabilities"):
            RunResult(make_run(), correct, total, bits, 1.0, ORIGIN, probability)


def test_add_results_never_changes_stored_row_and_stamps_each_addition(store):
    first, second = (make_result(make_run(seed)) for seed in range(2))
    states = [store.read_change_stamp()]
    assert store.add_results([first])
    states.append(store.read_change_stamp())
    assert not store.add_results([replace(make_result(first.run, total=9), seconds=99.0)])
    assert store.read_results(store.list_result_keys("")) == {first.run.key: first}
    assert store.read_change_stamp() == states[-1]
    store.failures.record_runs_failed_until_retry([second.run], "no")
    states.append(store.read_change_stamp())
    store.add_results([second])
    assert len({*states, store.read_change_stamp()}) == 4


def test_find_done_keys_accepts_more_keys_than_one_statement(store):
    results = {result.run.key: result for result in (make_result(make_run(seed), total=20) for seed in range(300))}
    store.add_results(results.values())
    assert store.find_done_keys([]) == set()
    others = [f"{number:032x}" for number in range(12_000)]  # more than one statement has
    assert store.find_done_keys([*others, *results]) == set(results)
    assert store.read_results([*others[:1000], *results]) == results
    first = min(results)
    assert first in store.list_result_keys(first[:4])
    assert store.list_result_keys("%") == store.list_result_keys("_" * 32) == []  # no patterns


def test_read_results_reports_damaged_row_in_one_line(tmp_path):
    damage = {"bits": b"\xff" * 126, "record": "{}", "versions": "{", "created": "yesterday"}
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        for seed, (column, value) in enumerate(damage.items()):
            run = make_run(seed)
            store.add_results([make_result(run)])
            with store.database.begin_exclusive_write() as connection:
                connection.exec_driver_sql(f"UPDATE results SET {column} = ? WHERE key = ?", (value, run.key))
            with pytest.raises(StoreError) as caught:
                store.read_results([run.key])
            assert "damaged" in str(caught.value) and "\n" not in str(caught.value)
            assert column != "bits" or f"(var-grad t=0.9 seed 0, {run.key}: " in str(caught.value)


def test_read_commit_marks_changed_code_as_dirty(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("1")
    (tmp_path / "README.md").write_text("1")
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm one"):
        subprocess.run(["git", "-C", tmp_path, *words.split()], check=True)
    (folder / "notes.txt").write_text("not part of the code")
    (tmp_path / "README.md").unlink()  # not code either
    commit = run_result._run_git(folder, "log", "-1", "--format=%h")
    assert run_result._read_commit(folder) == commit
    (folder / "__init__.py").write_text("2")
    assert run_result._read_commit(folder) == f"{commit}+dirty"
    (folder / "venv").mkdir()  # an environment inside a checkout is not part of the commit
    (folder / "venv" / "__init__.py").write_text("1")
    assert run_result._read_commit(folder / "venv") == ""


def test_provenance_strips_markup():
    hostile = {"cpu": "[red]x[/red] <b>*[a](http://b)*\x1b\n" + "y" * 100, "precision": ["`", 1]}
    said = Provenance("0", {"torch": "2"}, hostile).known_values
    assert said.keys() == {"torch", "cpu", "precision"} and len(said["cpu"]) == 60
    assert not set("[]<>*:`\x1b\n") & set("".join(said.values()))
