"""The paper's claims, tested on its own table and on results of suites."""

import pytest

from roarbench.common.enums import PAPER_LEVELS, Order, ScoredNetwork
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.report.paper_claims import (
    CLAIMS,
    RANDOM_RETRAINED,
    RANDOM_UNRETRAINED,
    UNRETRAINED,
    AccuracyTables,
    ClaimOutcome,
    ComparedPair,
    compute_curve_gain,
    format_claims,
    list_claims_with_findings,
    read_hooker2019,
)
from tests.helpers.made_up_results import SUITE, choose_accuracy, make_suite_results

CLAIM = {claim.id: claim for claim in CLAIMS}
PUBLISHED = AccuracyTables(read_hooker2019(Order.MORF), UNRETRAINED)


def test_claim_verdicts_on_published_table_match_protocol():
    """Section 6 of the protocol lists these verdicts; those on SmoothGrad are recorded output."""
    found = {claim.id: claim.test(PUBLISHED) for claim in CLAIMS}
    assert {name: str(finding) for name, finding in found.items()} == {
        "strong-ensembles-beat-random": "holds in 90 of 90 cells",
        "grad-worse-than-random": "holds in 15 of 15 cells",
        "ig-worse-than-random": "holds in 15 of 15 cells",
        "gb-worse-than-random": "fails: holds in 12 of 15 cells",
        "grad-not-better-than-sobel": "fails: holds in 14 of 15 cells",
        "ig-not-better-than-sobel": "holds in 15 of 15 cells",
        "gb-not-better-than-sobel": "fails: holds in 7 of 15 cells",
        "sobel-worse-than-random": "fails: holds in 14 of 15 cells",
        "smoothgrad-worse-than-random": "fails: holds in 36 of 45 cells",
        "smoothgrad-no-gain-over-grad": "fails: holds in 13 of 15 cells",
        "smoothgrad-no-gain-over-ig": "fails: holds in 12 of 15 cells",
        "squares-beat-random": "no data",
        "best-ensemble-base": "holds in 3 of 3 cells",
        "retraining-matters": "holds in 1 of 1 cells",
    }
    beyond = tuple(f"gb at t = 0.1 on {name}" for name in ("imagenet", "food101", "birdsnap"))
    assert found["gb-worse-than-random"].exceptions == beyond
    one = "grad against sobel-released at t = 0.5 on imagenet"
    assert found["grad-not-better-than-sobel"].exceptions == (one,)
    assert {claim.test(AccuracyTables({}, {})).verdict for claim in CLAIMS} == {ClaimOutcome.UNKNOWN}


def check_claim(claim, rows):
    return CLAIM[claim].test(AccuracyTables({"imagenette64": rows}, {"imagenette64": {"random": {0.0: 0.8, 0.9: 0.1}}}))


def test_claims_fail_on_contradicting_handmade_tables():
    random, partial = {0.0: 0.8, 0.5: 0.7, 0.9: 0.6}, {0.0: 0.8, 0.9: 0.5}
    rows = {"random": random, "grad": {0.0: 0.8, 0.5: 0.6, 0.9: 0.5}, "ig": {0.0: 0.8, 0.5: 0.75, 0.9: 0.6}}
    assert check_claim("grad-worse-than-random", rows).verdict is ClaimOutcome.NO
    equal = check_claim("ig-worse-than-random", rows)  # equal accuracy at t = 0.9 is not worse
    assert equal == (ClaimOutcome.NO, 1, 2, ("ig at t = 0.9 on imagenette64",), None, ())
    some = check_claim("strong-ensembles-beat-random", {"random": random, "var-gb": partial})
    assert str(some) == "holds in 1 of 1 cells (of var-gb only)"
    assert check_claim("retraining-matters", rows).verdict is ClaimOutcome.YES
    assert check_claim("grad-worse-than-random", {"random": random, "grad": partial}).cells == 1
    assert compute_curve_gain(partial, random) is None
    assert compute_curve_gain({0.5: 0.7, 0.9: 0.6}, {0.5: 0.7, 0.9: 0.6}) is None  # no untouched images
    rows = dict.fromkeys(("random", "sobel", "grad", "sgsq-grad"), partial)
    assert check_claim("grad-not-better-than-sobel", rows).verdict is ClaimOutcome.YES
    assert check_claim("strong-ensembles-beat-random", rows).verdict is ClaimOutcome.NO
    ensembles, claim = dict(PUBLISHED.roar["imagenet"]), CLAIM["best-ensemble-base"]
    assert claim.test(AccuracyTables({"birdsnap": ensembles}, {})).verdict is ClaimOutcome.NO
    del ensembles["sg-ig"]  # all nine are needed
    assert claim.test(AccuracyTables({"imagenet": ensembles}, {})).verdict is ClaimOutcome.UNKNOWN


@pytest.mark.parametrize(
    ("end", "significant", "verdict"),
    [
        (0.55, {0.5}, ClaimOutcome.OPEN),
        (0.55, {0.5, 0.9}, ClaimOutcome.NO),
        (0.65, set(), ClaimOutcome.OPEN),
        (0.65, {0.5}, ClaimOutcome.YES),
    ],
)
def test_claim_verdict_requires_significant_cells(end, significant, verdict):
    """GRAD is worse than Random at t = .5, as the claim says, and better or worse at t = .9."""
    rows = {"random": {0.0: 0.8, 0.5: 0.7, 0.9: 0.6}, "grad": {0.0: 0.8, 0.5: 0.75, 0.9: end}}
    pairs = {ComparedPair("grad", "random", t) for t in significant}
    found = CLAIM["grad-worse-than-random"].test(AccuracyTables({"imagenette64": rows}, {}), pairs)
    assert found.verdict is verdict and str(found).startswith(f"{verdict}")


@pytest.mark.parametrize(
    ("retrained", "unretrained", "clear", "verdict"),
    [
        (0.6, 0.1, (), ClaimOutcome.OPEN),
        (0.6, 0.1, (RANDOM_RETRAINED,), ClaimOutcome.OPEN),  # the other half of the claim is open
        (0.6, 0.1, (RANDOM_RETRAINED, RANDOM_UNRETRAINED), ClaimOutcome.YES),
        (0.3, 0.1, (RANDOM_UNRETRAINED,), ClaimOutcome.OPEN),  # only the half that agrees with the claim is significant
        (0.3, 0.1, (RANDOM_RETRAINED,), ClaimOutcome.NO),
        (0.6, 0.5, (RANDOM_UNRETRAINED,), ClaimOutcome.NO),
    ],
)
def test_retraining_claim_requires_both_accuracies_clear_of_half(retrained, unretrained, clear, verdict):
    """Random's accuracy at t = .9, with and without retraining, is compared with .4, half of .8."""
    tables = ({"planted": {"random": {0.0: 0.8, 0.9: value}}} for value in (retrained, unretrained))
    assert CLAIM["retraining-matters"].test(AccuracyTables(*tables), set(clear)).verdict is verdict


@pytest.mark.parametrize("order", Order)
def test_read_hooker2019_returns_complete_table(order):
    """Levels are removed fractions: VAR-GRAD with 10 % kept has 53.38 on ImageNet, so at t = 0.9 under KAR."""
    curves = read_hooker2019(order)
    assert set(curves) == {"imagenet", "food101", "birdsnap"}
    for rows in curves.values():
        assert len(rows) == 14 and set(rows) <= set(ESTIMATORS)
        assert {tuple(curve) for curve in rows.values()} == {(0.0, *PAPER_LEVELS)}
    if order is Order.MORF:
        assert curves["imagenet"]["random"][0.9] == 0.6353  # the number of the text
    else:
        kept = {0.0: 0.7668, 0.1: 0.7392, 0.3: 0.7322, 0.5: 0.7215, 0.7: 0.6986, 0.9: 0.5338}
        assert curves["imagenet"]["var-grad"] == kept


def find_claim(results, name):
    return next(row for row in list_claims_with_findings(results) if row["claim"] == name)


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
def test_claim_on_suite_results_requires_significant_cells(truth, verdict, significant):
    results = make_suite_results(SUITE, truth)
    row = find_claim(results, "grad-worse-than-random")
    assert (row["ours"].verdict, row["ours"].significant) == (verdict, significant)
    assert row["published"] == ("holds", 15, 15, (), None, ())
    text = format_claims(results)
    assert text.startswith(f"ours: {results.title}") and "  published  holds in 90 of 90 cells\n" in text


@pytest.mark.parametrize(
    ("kept", "verdict"),
    [(0.1, "holds"), (0.4499, "open"), (0.8, "fails")],  # .4499 is .01 points below half of .9
)
def test_retraining_claim_compares_random_with_half_untouched_accuracy(kept, verdict):
    """Random retrained is .6 at t = .9, well above half of .9."""
    true = {ScoredNetwork.IMAGES: 0.6, ScoredNetwork.NONE: kept}
    made = make_suite_results(SUITE, lambda cell: 0.9 if cell.estimator == CLEAN else true.get(cell.retrain, 0.25))
    assert find_claim(made, "retraining-matters")["ours"].verdict == verdict
