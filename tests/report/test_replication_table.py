"""A board beside its replication: what is counted, what a person and a program are told, and what is refused."""

from dataclasses import replace

from roarbench.report.replication_table import compare, replication_record, replication_text
from roarbench.terms import Unit
from roarbench.text import interval
from tests.helpers.made_up import SUITE, held, usual
from tests.helpers.tables import printed

AGAIN = replace(SUITE, replication=1)


def opposite(cell):
    """True accuracies under which grad is better than Random, and var-grad worse."""
    swapped = {"grad": "var-grad", "var-grad": "grad"}
    return usual(replace(cell, estimator=swapped.get(cell.estimator, cell.estimator)))


def test_the_same_truth_gives_the_same_verdicts_and_both_are_told():
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
    first, again = held(), held(AGAIN, opposite)
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
