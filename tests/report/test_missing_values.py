"""What was not measured is missing, and not a default that looks like a measurement."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from leaderboard.build_board_contents import make_board_contents
from roarbench.analysis.suite_judges import Grade, Mark
from roarbench.analysis.suite_results import SuiteResults
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import OWN_NETWORK, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.report.doubts import _do_masks_reach_half, _make_mark_doubt
from roarbench.report.table import make_suite_table
from roarbench.report.table_notes import write_all_notes
from roarbench.stats.intervals import Estimate
from roarbench.store import run_result
from roarbench.store.run_result import LIBRARIES, read_provenance
from tests.helpers.made_up_results import SUITE, make_suite_results, make_table
from tests.helpers.shown_tables import render


@pytest.mark.parametrize("protocol", [ROAR.name, OWN_NETWORK.name])
def test_table_without_results_states_no_number_of_images(protocol):
    table = make_suite_table(SuiteResults(SUITES["quick"], "d" * 32, None, {}), protocol, None, None)
    assert "test image" not in table.caption and "chance at least 10.0% (labels unknown)" in table.caption
    made = json.loads(render(table, "json"))
    assert (made["images"], made["reference_accuracy"], made["chance"]) == (None, None, None)
    assert all(row["gain"] is None and row["prediction_stability"] is None for row in made["rows"])


def test_number_of_images_is_unknown_without_predictions_on_untouched_images():
    """Own-network gain counts images on which the networks agree: runs of `grad` alone say nothing about them."""
    suite = replace(SUITE, references=3, blocks=(Block(OWN_NETWORK, ("grad",), (0.3,), seeds=1),))
    found = make_suite_results(suite)
    kept = {point: run for point, run in found.results.items() if point.cell.estimator != CLEAN}
    table = make_table(replace(found, results=kept), "own-network")
    assert "test image" not in " ".join((table.caption, *make_board_contents(table).facts))
    assert json.loads(render(table, "json"))["images"] is None
    assert "9 of 18 runs are done; no row has a value yet." in write_all_notes(table)


@pytest.mark.parametrize("missing", [0, 1])
def test_missing_accuracy_is_not_0_beside_an_accuracy_of_masks(missing):
    accuracies = [Estimate(0.6), Estimate(0.7)]
    judges = SimpleNamespace(
        highest_level_shared_with_mask_only=0.9,
        suite_results=SimpleNamespace(chance=0.1, chance_text="10.0%", at_chance_warning=""),
        mask_only=SimpleNamespace(estimate_accuracy=lambda *_: accuracies[0]),
        roar=SimpleNamespace(estimate_accuracy=lambda *_: accuracies[1]),
    )
    mark = Mark("masks", Estimate(0.8), Grade.STRONG)
    assert _do_masks_reach_half(judges, "grad")
    accuracies[missing] = Estimate()
    assert not _do_masks_reach_half(judges, "grad")
    words = "images –;" if missing else "masks alone have an accuracy of –"
    assert words in _make_mark_doubt(judges, "grad", mark).more


def test_versions_of_code_that_is_not_installed_are_unknown(monkeypatch):
    monkeypatch.setattr(run_result, "read_package_version", lambda name: "")
    monkeypatch.setattr(run_result, "_read_commit", lambda package: "1a2b3c4")
    assert run_result.read_code_version.__wrapped__() == "unknown 1a2b3c4"
    assert not {*read_provenance().versions} & {*LIBRARIES}
