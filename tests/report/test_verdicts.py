"""Verdicts beside those of others: ours beside the published claims, and a board beside its replication."""

from dataclasses import replace

from roarbench.analysis.evidence import Evidence
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.report.claim_table import claim_records, claims_text, gain_records, gains_text, significant_cells
from roarbench.report.replication_table import compare, replication_record, replication_text
from roarbench.stats.bootstrap import Bootstrap
from roarbench.terms import Unit
from roarbench.text import interval
from tests.helpers.made_up import SUITE, held, usual
from tests.helpers.tables import printed

AGAIN = replace(SUITE, replication=1)


def judged(truth=usual, suite=SUITE):
    return Evidence(held(suite, truth), Unit.SCALAR, Bootstrap(500))


def test_ours_are_judged_beside_the_published_ones():
    """GRAD is above Random at t = .5, as no claim has it, and below at t = .9."""
    true = {CLEAN: (0.7, 0.7), "random": (0.5, 0.4), "grad": (0.6, 0.3)}
    little = replace(SUITE, blocks=(Block(ROAR, ("random", "grad"), (0.5, 0.9), seeds=1),))
    records = claim_records(judged(lambda cell: true[cell.estimator][cell.t == 0.9], little))
    row = next(row for row in records if row["claim"] == "grad-worse-than-random")
    assert row["published"] == {"verdict": "holds", "agree": 15, "cells": 15, "exceptions": ()}
    assert row["ours"] == {
        "verdict": "fails",
        "agree": 1,
        "cells": 2,
        "exceptions": ("grad at t = 0.9 on planted",),
        "significant": {"agree": 0, "differ": 0},
    }
    text = claims_text(records, "quick v1 (small version: 2 images a split)")
    assert text.startswith("ours: quick v1 (small version: 2 images a split)\n")
    assert "  published  holds in 90 of 90 cells\n" in text and "  ours       no data" in text
    assert "  birdsnap   var-gb +30.04, sgsq-gb +29.98" in gains_text(gain_records())  # docs/protocol.md, section 6


def test_cells_are_settled_where_their_interval_keeps_to_one_side():
    """Under `usual` grad keeps .04 more than Random at t = .3 and .09 at t = .9, var-grad .06 and .18 less."""
    made = judged()
    clear = significant_cells(made)
    assert clear["grad-worse-than-random"] == clear["strong-ensembles-beat-random"] == (2, 0)
    assert not {"best-ensemble-base", "ig-worse-than-random"} & set(clear)  # no cells
    row = next(row for row in claim_records(made) if row["claim"] == "grad-worse-than-random")
    assert row["ours"]["significant"] == {"agree": 2, "differ": 0} and "significant" not in row["published"]
    assert "significantly (adjusted for all cells): 2 for it, 0 against" in claims_text(claim_records(made))
    against = judged(lambda cell: {"grad": 0.4, "random": 0.6}.get(cell.estimator, 0.5))
    assert significant_cells(against)["grad-worse-than-random"] == (0, 2)
    # one of six by 1.6 points whose own interval, of 1.55, does not hold 0: that is one in twenty by chance
    nearly = judged(lambda cell: 0.526 if (cell.estimator, cell.t) == ("grad", 0.9) else 0.5)
    grad, random = (nearly.roar.draws.accuracy((name, 0.9)) for name in ("grad", "random"))
    assert nearly.roar.estimate(grad.minus(random)).low > 0
    assert significant_cells(nearly)["grad-worse-than-random"] == (0, 0)


def test_a_replication_of_the_same_truth_gives_the_same_verdicts_and_both_are_told():
    first, again = held(), held(AGAIN)
    assert not set(first.results) & set(again.results)  # no seed is shared
    found = compare(first, again, Unit.SCALAR)
    assert {"random", "sobel", "grad", "var-grad"} <= {row.estimator for row in found.rows}
    assert found.opposed == 0 < found.verdicts == found.equal
    assert found.tau > 0.7  # twins of one truth may change places
    record = replication_record(found, first, again)
    assert (record["suite"], record["replication"]) == ("made-up v1", "made-up v1, replication 1")
    assert [row["estimator"] for row in record["rows"]] == [row.estimator for row in found.rows]
    assert record["rows"][-1]["gain"]["value"] == found.rows[-1].gain.value
    long = replace(found, rows=[row._replace(estimator="half-images@e2c2a556~untrained") for row in found.rows])
    told = printed(replication_text(long, first, again), 70)
    assert all(interval(gain) in told for row in found.rows for gain in (row.gain, row.again))  # names are folded
    assert f"{found.equal} of {found.verdicts} equal, 0 opposed" in told


def test_opposed_verdicts_are_counted():
    """The replication's truth has grad better than Random, and var-grad worse."""
    swapped = {"grad": "var-grad", "var-grad": "grad"}
    first = held()
    again = held(AGAIN, lambda cell: usual(replace(cell, estimator=swapped.get(cell.estimator, cell.estimator))))
    found = compare(first, again, Unit.SCALAR)
    words = {row.estimator: {said.control: (said.one, said.other) for said in row.verdicts} for row in found.rows}
    assert words["grad"]["random"] == ("worse", "better")
    assert words["var-grad"]["random"] == ("better", "worse")
    assert found.opposed >= 2
    record = replication_record(found, first, again)
    assert (record["beats_asked"], record["beats_equal"]) == (2, 0)
    grad = next(row for row in record["rows"] if row["estimator"] == "grad")
    assert grad["beats_controls"] == {"first": False, "again": True}
    lines = printed(replication_text(found, first, again)).splitlines()
    assert next(line for line in lines if line.startswith(" grad ")).rstrip().endswith("(!) no → yes")
