"""The paper's claims on a suite's results, beside the published ones."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.analysis import own_network_gain_of_suite
from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.own_network_gain_of_suite import KeptPredictions
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import OWN_NETWORK
from roarbench.plan.suite import Block
from roarbench.report.claim_table import format_claims, list_claims_with_findings
from roarbench.stats.bootstrap_intervals import Bootstrap
from tests.helpers.made_up_results import DATA, SUITE, choose_accuracy, make_suite_results


def make_draws(truth=choose_accuracy):
    return SuiteDraws(make_suite_results(SUITE, truth), Unit.SCALAR, Bootstrap(500))


def find_claim(draws, name):
    return next(row for row in list_claims_with_findings(draws) if row["claim"] == name)


def accuracy_of_one_cell(cell):
    """One of six cells differs by 1.6 points; its own interval excludes 0, the adjusted one does not."""
    return 0.526 if (cell.estimator, cell.t) == ("grad", 0.9) else 0.5


@pytest.mark.parametrize(
    ("truth", "verdict", "significant"),
    [
        (choose_accuracy, "holds", {"agree": 2, "differ": 0}),  # grad is .03 and .09 above Random at t = .3 and .9
        (lambda cell: {"grad": 0.4, "random": 0.6}.get(cell.estimator, 0.5), "fails", {"agree": 0, "differ": 2}),
        (lambda cell: 0.5005 if cell.estimator == "grad" else 0.5, "open", {"agree": 0, "differ": 0}),
        (accuracy_of_one_cell, "open", {"agree": 0, "differ": 0}),
    ],
)
def test_claim_verdict_requires_significant_cells(truth, verdict, significant):
    draws = make_draws(truth)
    row = find_claim(draws, "grad-worse-than-random")
    assert (row["ours"].verdict, row["ours"].significant) == (verdict, significant)
    assert row["published"] == ("holds", 15, 15, (), None, ())
    text = format_claims(list_claims_with_findings(draws), "quick v1")
    assert text.startswith("ours: quick v1\n") and "  published  holds in 90 of 90 cells\n" in text


def draw_kept_predictions(estimator, chance):
    """Draw predictions kept by three networks under each other's maps; grad harms the own network, ig the others."""
    own = np.eye(3, dtype=bool)[:, :, None, None]
    kept = {"grad": np.where(own, 0.3, 0.8), "ig": np.where(own, 0.8, 0.3)}.get(estimator, np.full((3, 3, 1, 1), 0.5))
    return chance.random((3, 3, 1, 400)) < kept


def test_own_network_gain_gives_claim_verdicts(monkeypatch):
    """Random and Sobel have a gain of exactly 0, so a gain above 0 is better than Random."""
    chance, rows = np.random.default_rng(0), ("random", "sobel", "grad", "ig", "gb-sq")
    kept = {name: KeptPredictions(draw_kept_predictions(name, chance), False) for name in rows[2:]}
    kept |= {name: KeptPredictions(np.ones((3, 3, 1, 400), bool), True) for name in rows[:2]}
    monkeypatch.setattr(own_network_gain_of_suite, "load_kept_predictions", lambda *_: ((0.5,), kept))
    scored = replace(SUITE, references=3, blocks=(Block(OWN_NETWORK, rows, (0.5,), seeds=1),))
    records = list_claims_with_findings(SuiteDraws(SuiteResults(scored, DATA, None, {}), Unit.SCALAR, Bootstrap(500)))
    found = {row["claim"]: row["own_network"].verdict for row in records}
    assert {name: verdict for name, verdict in found.items() if verdict != "no data"} == {
        "grad-worse-than-random": "fails",
        "ig-worse-than-random": "holds",
        "grad-not-better-than-sobel": "fails",
        "ig-not-better-than-sobel": "holds",
        "squares-beat-random": "open",
        "sobel-worse-than-random": "cannot say",
        "retraining-matters": "cannot say",
    }
    assert all(row["ours"].verdict == "no data" for row in records)


@pytest.mark.parametrize(
    ("kept", "verdict"),
    [(0.1, "holds"), (0.4499, "open"), (0.8, "fails")],  # .4499 is .01 points below half of .9
)
def test_retraining_claim_compares_random_with_half_untouched_accuracy(kept, verdict):
    """Random retrained is .6 at t = .9, well above half of .9."""
    true = {ScoredNetwork.IMAGES: 0.6, ScoredNetwork.NONE: kept}
    made = make_draws(lambda cell: 0.9 if cell.estimator == CLEAN else true.get(cell.retrain, 0.25))
    assert find_claim(made, "retraining-matters")["ours"].verdict == verdict
