"""Lists and reports: suites, estimators, status, and numbers in words."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from roarbench.analysis.boards import collect
from roarbench.analysis.load import Question, load_from
from roarbench.estimators import ESTIMATORS
from roarbench.plan.keys import bind, reference_of
from roarbench.plan.runs import CLEAN, Cell, Point, describe, expand
from roarbench.plan.suites import FAST, SUITES, Likeness
from roarbench.report.lists import (
    estimator_list,
    estimator_records,
    run_states,
    status_record,
    status_table,
    suite_list,
    suite_records,
)
from roarbench.store.leases import Owner
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Order, Retrain, Unit
from roarbench.text import duration, size
from tests.helpers.made_up import DATA, SUITE, held


@pytest.fixture
def store(tmp_path):
    with ResultsStore.open(default_url(tmp_path)) as store:
        yield store


def printed(shown) -> str:
    console = Console(file=StringIO(), width=80, highlight=False, markup=False)
    console.print(shown)
    return console.file.getvalue()


def run_of(point):
    return bind(SUITE, point, DATA, None)


# --- lists


def test_every_suite_is_listed_with_what_it_costs():
    rows = {row["suite"]: row for row in suite_records()}
    assert list(rows) == list(SUITES)
    assert json.loads(json.dumps(rows)) == rows
    planted = rows["planted"]
    assert (planted["estimators"], planted["runs"]) == (
        3,
        2 + 2 * 3 * 5 * 2,
    )  # both protocols share the untouched images
    assert planted["trainings"] == planted["runs"]  # nothing explains: there is no reference
    assert planted["images_trained"] == 62 * 8 * 1000  # trainings, epochs, images
    quick = rows["quick"]
    trained = 3 + 3 * 6 + 3 + 3  # untouched, Random and five estimators by three seeds, three controls, masks alone
    specific = 3 * (1 + 2 * 3 * 8)  # by each common network: untouched images; own and other maps, levels, rows
    assert (quick["estimators"], quick["runs"]) == (9, trained + 3 * (1 + 2 * 8) + specific)
    assert quick["trainings"] == trained + 3 + 3  # references, common networks
    assert (planted["twins"], quick["twins"]) == (0, 0)  # the blurred random map is a control


def test_the_suites_in_words():
    text = suite_list(120)
    for row in suite_records():
        assert f"{row['suite']} v{row['version']}\n  {row['about']}\n" in text
    assert "3 rankings, 62 trainings of resnet-planted, 0.5 M images" in text
    assert "9 rankings, 33 trainings of resnet-quick, 3.4 M images" in text
    narrow = suite_list(60)
    assert narrow.split() == text.split()
    names = {f"{row['suite']} v{row['version']}" for row in suite_records()}
    assert {line for line in narrow.splitlines()[:-1] if not line.startswith("  ")} == names
    assert max(map(len, narrow.splitlines()[:-1])) <= 60


def test_a_fast_suite_says_how_alike_it_is(monkeypatch):
    other = Likeness("cifar10", None, "")
    monkeypatch.setitem(FAST, "cifar10-fast", other)
    assert "\n  agreement of its places with those of cifar10: not measured\n" in suite_list(200)
    monkeypatch.setitem(FAST, "cifar10-fast", other._replace(tau=(0.5, -0.251, 1.0), source="9 rankings"))
    assert "\n  its places and those of cifar10: Kendall's tau 0.50 (-0.25 to 1.00); 9 rankings\n" in suite_list(200)
    rows = {row["suite"]: row["likeness"] for row in suite_records()}
    assert rows["cifar10-fast"] == {
        "of": "cifar10",
        "tau": {"value": 0.5, "low": -0.251, "high": 1.0},
        "source": "9 rankings",
    }
    assert rows["cifar10"] is None


def test_every_estimator_is_listed():
    rows = estimator_records()
    assert [row["estimator"] for row in rows] == list(ESTIMATORS)
    assert {row["kind"] for row in rows} == {"control", "estimator"}
    assert next(row for row in rows if row["estimator"] == "sobel")["kind"] == "control"
    text = printed(estimator_list())
    assert all(row["estimator"] in text for row in rows)
    assert "ID~untrained" in text


# --- status


def test_an_empty_store_misses_everything(store):
    found = status_record(collect(SUITE, store), store)
    assert (found["done"], found["running"], found["failed"]) == (0, 0, 0)
    assert found["missing"] == len(expand(SUITE))
    assert found["failures"] == []


def test_each_run_is_in_one_state(store):
    points = expand(SUITE)
    done, running, failed, repaired = points[0], points[1], points[2], points[3]
    results = held().results
    store.add_all([results[done], results[repaired]])
    store.lease([run_of(running).key], Owner.here())
    store.add_failure(run_of(failed), "first reason")
    store.add_failure(run_of(failed), "loss nan at step 3")
    store.add_failure(run_of(repaired), "no memory")
    found = collect(SUITE, store, data=DATA)
    states = run_states(found, store)
    assert states[done] == states[repaired] == ("done", "")
    assert states[running] == ("running", "")
    assert states[failed] == ("failed", "loss nan at step 3")
    assert {states[point] for point in points[4:]} == {("missing", "")}
    record = status_record(found, store)
    counts = (record["done"], record["running"], record["failed"], record["missing"])
    assert counts == (2, 1, 1, len(points) - 4)
    assert record["failures"] == [{"run": describe(failed), "reason": "loss nan at step 3"}]


def test_before_any_run_is_done_it_is_seen_what_is_under_way(store, tmp_path):
    folder = tmp_path / "data" / "planted-x"
    folder.mkdir(parents=True)
    manifest = {"record": {"name": "planted"}, "source": {"kind": "generated"}, "limit": None, "fingerprint": DATA}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert not status_record(load_from(store, SUITE, Question(tmp_path)), store)["preparing"]
    store.lease([reference_of(SUITE, DATA).key, run_of(expand(SUITE)[0]).key], Owner.here())
    found = status_record(load_from(store, SUITE, Question(tmp_path)), store)
    assert (found["preparing"], found["running"]) == (True, 1)
    small = status_record(load_from(store, SUITE, Question(tmp_path, limit=40)), store)
    assert (small["preparing"], small["running"]) == (False, 0)


def test_what_failed_is_seen_though_nothing_is_done_and_no_images_are_here(store, tmp_path):
    store.add_failure(replace(run_of(expand(SUITE)[0]), limit=40), "the small one")
    store.add_failure(run_of(expand(SUITE)[0]), "loss nan at step 3")
    found = status_record(load_from(store, SUITE, Question(tmp_path)), store)
    assert [failure["reason"] for failure in found["failures"]] == ["loss nan at step 3"]


def test_rows_that_do_not_belong_together_are_told(store):
    rows = held().results
    store.add_all(
        replace(row, rankings=("b" if point.seed == 1 else "a") * 32)
        for point, row in rows.items()
        if point.cell.estimator == "grad"
    )
    found = status_record(collect(SUITE, store), store)
    reason = "made from 2 different rankings; do it again in a fresh --store"
    told = [(row["protocol"], row["estimator"], row["unit"], row["reason"]) for row in found["mixed"]]
    assert told == [("roar", "grad", "scalar", reason), ("mask-only", "grad", "scalar", reason)]


def test_a_run_that_failed_before_and_is_tried_again_is_running(store):
    point = expand(SUITE)[1]
    store.add_failure(run_of(point), "no memory")
    store.lease([run_of(point).key], Owner.here())
    assert run_states(collect(SUITE, store, data=DATA), store)[point] == ("running", "")


def test_states_add_up_by_protocol(store):
    store.add_all(held().results.values())
    record = status_record(collect(SUITE, store), store)
    assert set(record["protocols"]) == {"roar", "kar", "morf", "lerf", "mask-only"}
    for state in ("done", "running", "missing", "failed"):
        assert sum(counts[state] for counts in record["protocols"].values()) == record[state]
    assert record["protocols"]["kar"] == {"done": 8, "running": 0, "missing": 0, "failed": 0}
    assert json.loads(json.dumps(record)) == record


def test_the_status_in_print(store):
    results = list(held().results.values())
    store.add_all(results[:5])
    text = printed(status_table(status_record(collect(SUITE, store), store)))
    assert "made-up v1" in text
    total = next(line.split() for line in text.splitlines() if line.split()[:1] == ["all"])
    assert total == ["all", "5", "0", str(len(results) - 5), "0"]
    assert "small version: 40 images" in printed(status_table(status_record(collect(SUITE, store, 40), store)))


# --- words


@pytest.mark.parametrize(
    "order, retrain, estimator, t, unit, words",
    [
        (Order.MORF, Retrain.IMAGES, "grad", 0.9, Unit.SCALAR, "roar grad t=0.9 scalar seed 1"),
        (Order.LERF, Retrain.IMAGES, "ig", 0.1, Unit.PIXEL, "kar ig t=0.1 pixel seed 1"),
        (Order.MORF, Retrain.NONE, "random", 0.5, Unit.SCALAR, "morf random t=0.5 scalar seed 1"),
        (Order.LERF, Retrain.NONE, "random", 0.5, Unit.SCALAR, "lerf random t=0.5 scalar seed 1"),
        (Order.MORF, Retrain.MASKS, "gb", 0.5, Unit.SCALAR, "mask-only gb t=0.5 scalar seed 1"),
        (Order.MORF, Retrain.IMAGES, CLEAN, 0.0, Unit.SCALAR, "roar none t=0 scalar seed 1"),
    ],
)
def test_a_run_in_a_few_words(order, retrain, estimator, t, unit, words):
    assert describe(Point(Cell("planted", "resnet8", estimator, order, retrain, "mean", unit, t), 1)) == words


@pytest.mark.parametrize(
    "seconds, words",
    [
        (0.2, "0 s"),
        (40, "40 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (420, "7 min"),
        (5399, "90 min"),
        (12600, "3.5 h"),
        (36e6, "10,000 h"),
    ],
)
def test_seconds_in_words(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    "count, words", [(0, "0 kB"), (48_300, "48 kB"), (926.4e6, "926 MB"), (1e9, "1.0 GB"), (1.35e12, "1.4 TB")]
)
def test_bytes_in_words(count, words):
    assert size(count) == words
