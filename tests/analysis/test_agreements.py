"""ROAR's order against that of other protocols, units and suites, on made-up stores whose truth is known."""

from dataclasses import replace

from roarbench.analysis.validity import panel
from roarbench.plan.runs import Cell
from roarbench.plan.suite import Block
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.report.validity_panel import agreement_lines
from roarbench.stats.bootstrap import Bootstrap
from roarbench.terms import Unit
from tests.helpers.made_up import MAIN, SUITE, held, one_seed, usual

BOOTSTRAP = Bootstrap(300, seed=4)
LEVELS = (0.3, 0.9)
STEEP = {"grad": -0.1, "sobel": 0.1, "var-grad": 0.2}  # four rows whose order is settled everywhere
ORDERED = replace(
    SUITE,
    blocks=(
        *(Block(protocol, MAIN, LEVELS, seeds=2) for protocol in (ROAR, KAR, MORF, LERF)),
        Block(ROAR, MAIN, LEVELS, seeds=2, unit=Unit.PIXEL),
    ),
)


def turned(cell: Cell) -> float:
    """KAR, LeRF and the pixel unit put the estimators the other way round; MoRF agrees with ROAR."""
    falls = STEEP.get(cell.estimator, 0.0) * (-1 if cell.unit is Unit.PIXEL else 1)
    return 0.9 - cell.t * (0.4 + falls)


def test_every_other_order_is_compared_once_and_tau_has_the_sign_of_the_truth():
    other = replace(ORDERED, name="other", blocks=ORDERED.blocks[:1])
    made = panel(held(ORDERED, turned), BOOTSTRAP, [held(other, usual)])
    assert [compared.other for compared in made.agreements] == ["kar", "morf", "lerf", "unit pixel", "other v1"]
    for compared, tau in zip(made.agreements, (-1, 1, -1, -1), strict=False):
        alike = compared.found
        assert (alike.rows, alike.tau.value) == (4, tau), compared.other
        assert alike.opposed == (alike.settled if tau < 0 else 0), "a pair that differs in both is no chance"
        assert alike.tau.low <= tau <= alike.tau.high
    lines = agreement_lines(made)
    assert lines[1].startswith("ROAR and morf: Kendall's tau +1.00 [") and len(lines) == 5
    assert "over 4 rows" in lines[1] and lines[1].endswith("0 in opposite order.")


def test_without_repeated_trainings_there_is_no_interval_and_two_rows_say_nothing():
    compared = panel(held(one_seed(ORDERED), turned), BOOTSTRAP).agreements[0].found
    assert (compared.tau.value, compared.tau.low, compared.tau.high) == (-1, None, None)
    few = replace(ORDERED, blocks=tuple(replace(block, estimators=MAIN[:2]) for block in ORDERED.blocks))
    short = panel(held(few, turned), BOOTSTRAP)
    assert {compared.found for compared in short.agreements} == {None}
    assert "fewer than 3 rows" in agreement_lines(short)[0]
