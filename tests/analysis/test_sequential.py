"""Which trainings come next: those of rows that are open, and of the controls that they are held against."""

from dataclasses import replace

from roarbench.analysis.sequential import is_open, next_seeds
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.stats.board import IntervalScope
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.compute_board import compute_board
from roarbench.stats.verdicts import Comparison, Verdict
from tests.helpers.synthetic_boards import BOOTSTRAP, row, synthetic

PLANNED = {"random": 3, "sobel": 3, "grad": 3, "ig": 3, "gb": 2}
OPEN = Comparison(Verdict.SAME, 0.5, 1.0, Estimate(0.5, -1.0, 2.0))
FOUND = Comparison(Verdict.BETTER, 0.001, 0.01, Estimate(4.0, 1.0, 7.0))


def made(**comparisons):
    """A board of rows with 1 training each and these comparisons with Random."""
    whole = compute_board(synthetic(2), ROAR, BOOTSTRAP)
    one = replace(row(whole, "good"), seeds=1, against={"sobel": OPEN})
    rows = (
        replace(one, estimator=name, against=one.against | ({"random": found} if found else {}))
        for name, found in comparisons.items()
    )
    return replace(whole, rows=tuple(rows))


def test_open_rows_get_one_training_more_and_so_does_what_they_are_compared_with():
    judged = made(random=None, sobel=FOUND, grad=FOUND, ig=OPEN)
    assert next_seeds(judged, PLANNED, None) == {"ig": 2, "random": 2}
    assert next_seeds(replace(judged, protocol=SPECIFIC), PLANNED, None) == {"ig": 2}  # Random's gain is 0 there
    blind = replace(judged, protocol=SPECIFIC, covers=IntervalScope.NOTHING)
    assert next_seeds(blind, PLANNED, None) == {"ig": 2, "random": 2}  # nothing says how trainings vary
    assert next_seeds(judged, PLANNED, 2.1) == {}
    for left in (OPEN.difference, Estimate(-0.5, -2.0, 1.0), Estimate(0.5)):  # 2 points are not excluded
        still_open = made(random=None, ig=OPEN._replace(difference=left))
        assert next_seeds(still_open, PLANNED, 2.0) == {"ig": 2, "random": 2}
    # no row gets more than is planned, and checks get none
    judged = made(random=None, gb=OPEN)
    two = replace(judged, rows=tuple(replace(each, seeds=2) for each in judged.rows))
    assert next_seeds(judged, PLANNED, None) == {"gb": 2, "random": 2}
    assert next_seeds(two, PLANNED, None) == next_seeds(judged, {}, None) == {}
    assert next_seeds(judged, PLANNED | {"random": 1}, None) == {"gb": 2}  # a control that has all of its own
    random, grad = (replace(each, against={}) for each in made(random=None, grad=None).rows)  # nothing has intervals
    assert [is_open(each, None) for each in (random, grad, replace(grad, check=True))] == [False, True, False]
