"""Tables of the protocols under which one network answers for a row and for another image's removal masks."""

from dataclasses import replace

import pytest

from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.protocols.specific import SPECIFIC, SPECIFIC_LERF
from roarbench.report.table import suite_table
from roarbench.terms import Order, Retrain
from tests.helpers.made_up import LEVELS, MAIN, SUITE, held, usual
from tests.helpers.tables import rows_of

KNOWS = {"grad": -0.06, "var-grad": 0.08, "sobel": -0.03}  # what the own map costs more than another image's
COMMON = replace(
    SUITE,
    name="common",
    blocks=(*SUITE.blocks, *(Block(protocol, MAIN, LEVELS, seeds=3) for protocol in (SPECIFIC, SPECIFIC_LERF))),
)


def accuracy(cell):
    if cell.retrain is not Retrain.COMMON:
        return usual(cell)
    if cell.estimator == CLEAN:
        return 0.8
    falls = 0.8 - 0.3 * cell.t
    sign = 1 if cell.order is Order.MORF else -1
    return falls if "~" in cell.estimator else falls - sign * KNOWS.get(cell.estimator, 0.0)


@pytest.mark.parametrize("protocol", (SPECIFIC, SPECIFIC_LERF))
def test_gains_at_every_level_are_those_that_were_put_in(protocol):
    rows = rows_of(suite_table(held(COMMON, accuracy), protocol.name, None, None))
    for name in MAIN:
        for t in LEVELS:
            assert rows[name]["gains"][str(t)] == pytest.approx(100 * KNOWS.get(name, 0.0), abs=1.5)
    assert {name: rows[name]["verdict"] for name in MAIN} == {
        "random": None,
        "sobel": "worse",
        "grad": "worse",
        "var-grad": "better",
    }
