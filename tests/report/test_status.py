"""What is done, running, missing and failed, and in which words."""

import json

from roarbench.analysis.collecting import collect
from roarbench.analysis.load import Question, load_from
from roarbench.plan.keys import bind, reference_of
from roarbench.plan.points import describe, expand
from roarbench.plan.runs import CLEAN
from roarbench.protocols.roar import ROAR
from roarbench.report.status import run_states, status_record
from roarbench.store.leases import Owner, Wanted
from tests.helpers.leasing import lease
from tests.helpers.made_up import DATA, SUITE, held


def run_of(point):
    return bind(SUITE, point, DATA, None)


def test_each_run_is_in_one_state(store):
    points = expand(SUITE)
    done, running, failed, repaired = points[0], points[1], points[2], points[3]
    results = held().results
    store.add_all([results[done], results[repaired]])
    lease(store, [run_of(running).key], Owner.here())
    store.failures.add(run_of(failed), "first reason")
    store.failures.add(run_of(failed), "loss nan at step 3")
    store.failures.add(run_of(repaired), "no memory")
    found = collect(SUITE, store, data=DATA)
    states = run_states(found, store)
    assert states[done] == states[repaired] == ("done", "")
    assert states[running] == ("running", "")
    assert states[failed] == ("failed", "loss nan at step 3")
    assert {states[point] for point in points[4:]} == {("missing", "")}
    record = status_record(found, store)
    counts = (record["done"], record["running"], record["failed"], record["missing"])
    assert counts == (2, 1, 1, len(points) - 4)
    assert record["failures"] == [{"run": describe(failed), "estimator": CLEAN, "reason": "loss nan at step 3"}]


def test_before_any_run_is_done_it_is_seen_what_is_under_way(store, tmp_path):
    folder = tmp_path / "data" / "planted-x"
    folder.mkdir(parents=True)
    manifest = {"record": {"name": "planted"}, "source": {"kind": "generated"}, "limit": None, "fingerprint": DATA}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert not status_record(load_from(store, SUITE, Question(tmp_path)), store)["preparing"]
    key = reference_of(SUITE, DATA).key
    store.claim([Wanted((key,), "reference", DATA)], Owner.here(), 1)
    lease(store, [run_of(expand(SUITE)[0]).key], Owner.here())
    found = status_record(load_from(store, SUITE, Question(tmp_path)), store)
    assert (found["preparing"], found["running"]) == (True, 1)
    small = status_record(load_from(store, SUITE, Question(tmp_path, limit=40)), store)
    assert (small["preparing"], small["running"]) == (False, 0)


def test_a_seed_is_complete_where_every_row_has_its_whole_curve(store):
    results = held().results
    store.add_all(result for point, result in results.items() if point.seed == 0)
    record = status_record(collect(SUITE, store), store)
    for state in ("done", "running", "missing", "failed"):
        assert sum(counts[state] for counts in record["protocols"].values()) == record[state]
    assert record["protocols"]["kar"] == {"done": 8, "running": 0, "missing": 0, "failed": 0}
    assert (record["seeds"]["roar"], record["seeds"]["kar"]) == ({"complete": 1, "of": 3}, {"complete": 1, "of": 1})
    second = [point for point in results if point.seed == 1 and point.cell.retrain is ROAR.retrain]
    for count, part in ((1, second[:-1]), (2, second[-1:])):
        store.add_all(results[point] for point in part)
        assert status_record(collect(SUITE, store), store)["seeds"]["roar"]["complete"] == count
