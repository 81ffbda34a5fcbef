"""The report of the claims: the published verdicts and gains in words, and a suite of ours beside them."""

from dataclasses import replace

from roarbench.analysis.evidence import Evidence
from roarbench.plan.runs import CLEAN, Cell
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite
from roarbench.protocols.roar import ROAR
from roarbench.report.claim_table import claim_records, claims_text, gain_records, gains_text, significant_cells
from roarbench.stats.bootstrap import Bootstrap
from roarbench.terms import Unit
from tests.helpers.made_up import held

LITTLE = replace(find_suite("quick@1"), blocks=(Block(ROAR, ("random", "grad"), (0.5, 0.9), seeds=1),))


def mixed(cell: Cell) -> float:
    """GRAD is above Random at t = .5, as no claim has it, and below at t = .9."""
    true = {CLEAN: (0.7, 0.7), "random": (0.5, 0.4), "grad": (0.6, 0.3)}[cell.estimator]
    return true[cell.t == 0.9]


def test_ours_are_judged_beside_the_published_ones() -> None:
    records = claim_records(Evidence(held(LITTLE, mixed), Unit.SCALAR, Bootstrap(200)))
    row = next(row for row in records if row["claim"] == "grad-worse-than-random")
    assert row["published"] == {"verdict": "holds", "agree": 15, "cells": 15, "exceptions": ()}
    assert row["ours"] == {
        "verdict": "fails",
        "agree": 1,
        "cells": 2,
        "exceptions": ("grad at t = 0.9 on imagenette64",),
        "significant": {"agree": 0, "differ": 0},
    }
    text = claims_text(records, "quick v1 (small version: 2 images a split)")
    assert "  published  holds in 90 of 90 cells\n" in text and "  ours       no data" in text
    assert "  birdsnap   var-gb +30.04, sgsq-gb +29.98" in gains_text(gain_records())  # docs/protocol.md, section 6


def test_cells_are_settled_where_their_interval_keeps_to_one_side() -> None:
    """Under `usual` grad keeps .04 more than Random at t = .3 and .09 at t = .9, var-grad .06 and .18 less."""
    made = Evidence(held(), Unit.SCALAR, Bootstrap(500))
    clear = significant_cells(made)
    assert clear["grad-worse-than-random"] == clear["strong-ensembles-beat-random"] == (2, 0)
    assert not {"best-ensemble-base", "ig-worse-than-random"} & set(clear)  # no cells
    row = next(row for row in claim_records(made) if row["claim"] == "grad-worse-than-random")
    assert row["ours"]["significant"] == {"agree": 2, "differ": 0} and "significant" not in row["published"]
    assert "significantly (adjusted for all cells): 2 for it, 0 against" in claims_text(claim_records(made))

    def turned(cell: Cell) -> float:
        return {"grad": 0.4, "random": 0.6}.get(cell.estimator, 0.5)

    against = Evidence(held(accuracy=turned), Unit.SCALAR, Bootstrap(500))
    assert significant_cells(against)["grad-worse-than-random"] == (0, 2)


def test_cells_are_adjusted_for_all_cells_of_all_claims() -> None:
    """One of six cells by 1.6 points whose own interval, of 1.55, does not hold 0: that is one in twenty by chance."""

    def nearly(cell: Cell) -> float:
        return 0.526 if (cell.estimator, cell.t) == ("grad", 0.9) else 0.5

    evidence = Evidence(held(accuracy=nearly), Unit.SCALAR, Bootstrap(500))
    grad, random = evidence.roar.draws.accuracy(("grad", 0.9)), evidence.roar.draws.accuracy(("random", 0.9))
    assert evidence.roar.estimate(grad.minus(random)).low > 0
    assert significant_cells(evidence)["grad-worse-than-random"] == (0, 0)
