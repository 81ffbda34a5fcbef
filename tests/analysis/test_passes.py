"""Passes of a row: declared for estimators of the table, counted for submissions, else unknown."""

from dataclasses import replace

from roarbench.analysis.collect_results import _average_passes_by_estimator
from roarbench.analysis.suite_results import SuiteResults
from roarbench.plan.planned_runs import PlannedRun
from roarbench.plan.suites import SUITES
from tests.helpers.store_rows import make_result, make_run

MINE = "mine@0123abcd"


def average(counted, *rankings):
    runs = [make_run(estimator=MINE, seed=seed) for seed in range(len(rankings))]
    results = {
        PlannedRun(run.cell, run.seed): replace(make_result(run), rankings=checksum)
        for run, checksum in zip(runs, rankings, strict=True)
    }
    return _average_passes_by_estimator(results, counted)


def test_counts_are_averaged_over_rankings_not_runs():
    counted = {"a": [2.0, 1.0], "b": [4.0, 2.0]}
    assert average(counted, "a", "a", "b") == {MINE: (3.0, 1.5)}


def test_one_ranking_without_a_count_makes_the_row_unknown():
    assert average({"a": [2.0, 1.0]}, "a", "b") == {} == average({}, "a")


def test_submission_without_a_count_is_unknown_and_never_two_passes():
    results = SuiteResults(SUITES["quick"], "d" * 32, None, {}, counted_passes={f"{MINE}~blurred": (7.0, 0.0)})
    assert results.find_passes(MINE) is None
    assert results.find_passes(f"{MINE}~blurred") == (7.0, 0.0)
    assert results.find_passes("grad") == (1.0, 1.0) and results.find_passes("random") == (0.0, 0.0)
    # one pass per channel of the network, whose number differs between networks
    assert results.find_passes("score-cam") is None and results.find_passes("score-cam~untrained") is None
