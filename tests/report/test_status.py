"""States and pace of runs, messages of `import`, and costs of suites."""

import json
from dataclasses import replace

import pytest

from roarbench.analysis.collect_results import collect_results
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import build_run, describe_run, list_planned_runs
from roarbench.plan.protocols import KAR, MATCHED, OWN_NETWORK, ROAR
from roarbench.plan.suite import Block, decode_network_pair_seed
from roarbench.plan.suites import SUITES
from roarbench.report.descriptions_and_repeat_commands import count_suite_training_cost, format_suite, format_suite_list
from roarbench.report.status import find_run_states, make_status_record, make_status_table
from roarbench.store.export_and_import import export_results
from roarbench.store.leases import LeaseRequest, Owner
from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers.command_line import publish
from tests.helpers.made_up_results import DATA, MAIN, SUITE, make_suite_results, render_text
from tests.helpers.store_rows import lease, set_correctness


def make_run(point):
    return build_run(SUITE, point, DATA, None)


def test_find_run_states_gives_each_run_one_state(store):
    points = list_planned_runs(SUITE)
    done, running, failed, repaired = points[:4]
    results = make_suite_results().results
    store.add_results([results[done], results[repaired]])
    lease(store, [make_run(running).key], Owner.of_this_process())
    for point, reason in ((failed, "first reason"), (failed, "loss nan at step 3"), (repaired, "no memory")):
        store.failures.record_runs_failed_until_retry([make_run(point)], reason)
    found = collect_results(SUITE, store, data=DATA)
    states = find_run_states(found, store)
    assert states[done] == states[repaired] == ("done", "")
    assert states[running] == ("running", "")
    record = make_status_record(found, store)
    counts = (record["done"], record["running"], record["failed"], record["missing"])
    assert counts == (2, 1, 1, len(points) - 4)
    assert record["failures"] == [{"run": describe_run(failed), "estimator": CLEAN, "reason": "loss nan at step 3"}]


def test_status_shows_preparation_before_first_result(store):
    store.claim_leases([LeaseRequest(("reference",), "reference", DATA)], Owner.of_this_process(), 1)
    lease(store, [make_run(list_planned_runs(SUITE)[0]).key], Owner.of_this_process())
    for data, preparing in ((DATA, True), ("0ther", False)):
        assert make_status_record(collect_results(SUITE, store, data=data), store)["preparing"] is preparing


def test_status_counts_seed_complete_with_every_curve(store):
    results = make_suite_results().results
    store.add_results(result for point, result in results.items() if point.seed == 0)
    record = make_status_record(collect_results(SUITE, store), store)
    for state in ("done", "running", "missing", "failed"):
        assert sum(counts[state] for counts in record["protocols"].values()) == record[state]
    assert record["protocols"]["kar"] == {"done": 8, "running": 0, "missing": 0, "failed": 0}
    assert (record["seeds"]["roar"], record["seeds"]["kar"]) == ({"complete": 1, "of": 3}, {"complete": 1, "of": 1})
    second = [point for point in results if point.seed == 1 and point.cell.retrain is ROAR.retrain]
    for count, part in ((1, second[:-1]), (2, second[-1:])):
        store.add_results(results[point] for point in part)
        assert make_status_record(collect_results(SUITE, store), store)["seeds"]["roar"]["complete"] == count


def test_status_counts_explained_networks_where_pairs_are_scored(store):
    """Three networks have nine pairs; a network is complete with its map's three scores."""
    suite = replace(SUITE, blocks=(Block(OWN_NETWORK, MAIN, (0.5,), 1),), references=3)
    results = make_suite_results(suite).results
    store.add_results(result for point, result in results.items() if decode_network_pair_seed(point.seed) != (2, 0))
    assert make_status_record(collect_results(suite, store), store)["seeds"] == {
        "own-network": {"complete": 2, "of": 3}
    }


def test_status_table_counts_seeds_beside_their_protocol(store):
    """Regression: in a suite whose protocols had another order, `status` showed seeds of another protocol."""
    blocks = tuple(Block(protocol, MAIN, (0.9,), seeds) for protocol, seeds in ((MATCHED, 2), (KAR, 1), (ROAR, 3)))
    found = make_suite_results(replace(SUITE, blocks=blocks))
    table = render_text(make_status_table(make_status_record(found, store)), 60)
    seeds = {line.split()[0]: " ".join(line.split()[-3:]) for line in table.splitlines() if " of " in line}
    assert seeds == {"roar": "3 of 3", "kar": "1 of 1", "matched": "2 of 2"}


def test_import_reports_differing_predictions_without_replacing_rows(call, tmp_path, monkeypatch):
    """The file has other predictions on untouched images, and grad lacks the checksum of the weights."""
    suite = replace(SUITE, blocks=(Block(ROAR, MAIN, (0.9,), seeds=2),))
    publish(monkeypatch, suite)
    asked = ("--suite", suite.name, "--store", tmp_path / "here")
    stores = {"here": [], "there": []}
    for point, row in make_suite_results(suite).results.items():
        if point.cell.estimator != "grad":
            stores["here"].append(replace(row, weights="a" * 64 if row.run.reference else ""))
        bits = row.correctness
        bits[0] ^= point.cell.estimator == CLEAN
        stores["there"].append(set_correctness(row, bits))
    for name, rows in stores.items():
        with ResultsStore.open(make_default_url(tmp_path / name)) as store:
            store.add_results(rows)
            export_results(store, tmp_path / f"{name}.parquet")

    def read_curves():
        rows = json.loads(call("table", *asked, "--format", "json").out)["rows"]
        return {row["estimator"]: row["curve"] for row in rows if row["estimator"] != "grad"}

    before = read_curves()
    unsaid = "made from a different explained network than the other rows, or one without a recorded checksum"
    told = f"grad has no rank (roar scalar): {unsaid}; compute the row again in a new --store."
    for new, known in ((2, 6), (0, 8)):
        answer = call("import", tmp_path / "there.parquet", "--store", tmp_path / "here")
        read, other, _ = answer.err.splitlines()
        words = f"{new} results are new, {known} are stored already, 2 are stored already with other predictions, "
        assert answer.code == 0 and read.endswith(f"{words}weights or rankings and were not imported")
        assert other == (
            "other predictions: roar none t=0 scalar seed 1: "
            "1,798 of 2,000 correct here, 1,797 in the file, 1 differ (key afb0293f)"
        )
    assert read_curves() == before and told in call("status", *asked).out


@pytest.mark.slow
def test_suite_list_shows_cost_of_every_suite():
    assert [line for line in format_suite_list(80).splitlines() if line[0] != " "] == [s.title for s in SUITES.values()]
    narrow, wide = (format_suite(SUITES["quick"], width) for width in (60, 1000))
    assert max(map(len, narrow.splitlines())) <= 60 and narrow.split() == wide.split()
    planted = SUITES["planted"]
    assert len(list_planned_runs(planted)) == 2 + 2 * 3 * 5 * 2  # untouched images are shared
    assert count_suite_training_cost(planted) == (62, 62 * 8 * 1000)  # trainings, epochs, images
