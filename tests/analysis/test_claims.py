import pytest

from roarbench.analysis.claims import BASES, CLAIMS, Claim, Holds, Tables, curve_gain
from roarbench.analysis.paper_curves import UNRETRAINED, hooker2019
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.terms import PAPER_LEVELS, Order

CLAIM = {claim.id: claim for claim in CLAIMS}
PUBLISHED = Tables(hooker2019(Order.MORF), UNRETRAINED)


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ("strong-ensembles-beat-random", "holds in 90 of 90 cells"),
        ("grad-worse-than-random", "holds in 15 of 15 cells"),
        ("ig-worse-than-random", "holds in 15 of 15 cells"),
        ("gb-worse-than-random", "fails: holds in 12 of 15 cells"),
        ("grad-not-better-than-sobel", "fails: holds in 14 of 15 cells"),
        ("ig-not-better-than-sobel", "holds in 15 of 15 cells"),
        ("gb-not-better-than-sobel", "fails: holds in 7 of 15 cells"),
        ("sobel-worse-than-random", "fails: holds in 14 of 15 cells"),
        ("smoothgrad-worse-than-random", "fails: holds in 36 of 45 cells"),
        ("smoothgrad-no-gain-over-grad", "fails: holds in 13 of 15 cells"),
        ("smoothgrad-no-gain-over-ig", "fails: holds in 12 of 15 cells"),
        ("squares-beat-random", "no data"),
        ("best-ensemble-base", "holds in 3 of 3 cells"),
        ("retraining-matters", "holds in 1 of 1 cells"),
    ],
)
def test_verdicts_on_the_published_table(claim: str, text: str) -> None:
    """The list of the protocol, section 6; SmoothGrad, which it does not list, is the recorded output."""
    assert str(CLAIM[claim].test(PUBLISHED)) == text


def test_the_exceptions_are_those_that_the_protocol_names() -> None:
    random = CLAIM["gb-worse-than-random"].test(PUBLISHED)
    assert random.exceptions == tuple(f"gb at t = 0.1 on {name}" for name in ("imagenet", "food101", "birdsnap"))
    assert CLAIM["grad-not-better-than-sobel"].test(PUBLISHED).exceptions == (
        "grad against sobel-released at t = 0.5 on imagenet",
    )
    assert len(CLAIM) == len(CLAIMS)
    for claim in CLAIMS:
        assert claim.test(Tables({}, {})).verdict is Holds.UNKNOWN


def by_hand(**curves: dict[float, float]) -> Tables:
    return Tables({"imagenette64": curves}, {"imagenette64": {"random": {0.0: 0.8, 0.9: 0.1}}})


def test_a_table_made_by_hand_fails_the_claims_that_it_contradicts() -> None:
    tables = by_hand(
        random={0.0: 0.8, 0.5: 0.7, 0.9: 0.6}, grad={0.0: 0.8, 0.5: 0.6, 0.9: 0.5}, ig={0.0: 0.8, 0.5: 0.75, 0.9: 0.6}
    )
    assert CLAIM["grad-worse-than-random"].test(tables).verdict is Holds.NO
    found = CLAIM["ig-worse-than-random"].test(tables)  # equal accuracy at t = 0.9 is not worse
    assert (found.verdict, found.agree, found.cells) == (Holds.NO, 1, 2)
    assert found.exceptions == ("ig at t = 0.9 on imagenette64",)
    assert CLAIM["retraining-matters"].test(tables).verdict is Holds.YES
    random, partial = {0.0: 0.8, 0.5: 0.7, 0.9: 0.6}, {0.0: 0.8, 0.9: 0.5}
    assert curve_gain(partial, random) is None
    assert curve_gain({0.5: 0.7, 0.9: 0.6}, {0.5: 0.7, 0.9: 0.6}) is None  # no untouched images
    assert CLAIM["grad-worse-than-random"].test(by_hand(random=random, grad=partial)).cells == 1
    curve = {0.0: 0.8, 0.9: 0.5}
    names = {name: curve for name in ("random", "sobel", "grad", "sgsq-grad")}
    tables = by_hand(**names)
    assert CLAIM["grad-not-better-than-sobel"].test(tables).verdict is Holds.YES
    assert CLAIM["grad-worse-than-random"].test(tables).verdict is Holds.NO
    assert CLAIM["strong-ensembles-beat-random"].test(tables).verdict is Holds.NO


def test_a_claim_says_which_sobel_it_is_about() -> None:
    """The paper's table has the released code's; ours may have that, the magnitude, or both."""
    below, curve, above = {0.0: 0.8, 0.9: 0.4}, {0.0: 0.8, 0.9: 0.5}, {0.0: 0.8, 0.9: 0.6}
    tables = Tables({"imagenette64": {"random": curve, "sobel": below, "sobel-released": above, "grad": curve}}, {})
    worse, par = CLAIM["sobel-worse-than-random"].test(tables), CLAIM["grad-not-better-than-sobel"].test(tables)
    assert (worse.agree, worse.cells) == (1, 1)
    assert par.exceptions == ("grad against sobel-released at t = 0.9 on imagenette64",) and par.cells == 2
    magnitude = Tables({"imagenette64": {"random": curve, "sobel": above}}, {})
    assert CLAIM["sobel-worse-than-random"].test(magnitude).verdict is Holds.UNKNOWN
    for claim in (CLAIM["sobel-worse-than-random"], *(CLAIM[f"{base}-not-better-than-sobel"] for base in BASES)):
        assert "sobel-released" in claim.text and "sobel, the magnitude" in claim.text


def test_best_ensemble_needs_all_nine() -> None:
    rows = dict(PUBLISHED.roar["imagenet"])
    claim: Claim = CLAIM["best-ensemble-base"]
    assert claim.test(Tables({"imagenet": rows}, {})).verdict is Holds.YES
    assert claim.test(Tables({"birdsnap": rows}, {})).verdict is Holds.NO
    del rows["sg-ig"]
    assert claim.test(Tables({"imagenet": rows}, {})).verdict is Holds.UNKNOWN


@pytest.mark.parametrize("order", Order)
def test_hooker_is_a_full_table_in_our_words(order: Order) -> None:
    curves = hooker2019(order)
    assert set(curves) == {"imagenet", "food101", "birdsnap"}
    for rows in curves.values():
        assert len(rows) == 14
        assert set(rows) <= set(ESTIMATORS)
        for curve in rows.values():
            assert tuple(curve) == (0.0, *PAPER_LEVELS)
            assert all(0 < accuracy < 1 for accuracy in curve.values())


def test_kar_is_read_by_the_fraction_removed() -> None:
    """Kept 10 percent of VAR-GRAD on ImageNet is 53.38: that is t = 0.9."""
    kept = hooker2019(Order.LERF)["imagenet"]["var-grad"]
    assert hooker2019(Order.MORF)["imagenet"]["random"][0.9] == 0.6353  # the number of the text
    assert kept == {0.0: 0.7668, 0.1: 0.7392, 0.3: 0.7322, 0.5: 0.7215, 0.7: 0.6986, 0.9: 0.5338}
