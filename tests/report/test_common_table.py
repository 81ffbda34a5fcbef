"""Tables and pictures of the protocols under which one network answers for all rows."""

import json
from dataclasses import replace

import pytest

from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.specific import SPECIFIC, SPECIFIC_LERF
from roarbench.report.curve_chart import chart
from roarbench.report.table import suite_table
from roarbench.report.table_formats import render
from roarbench.report.table_notes import remarks
from roarbench.terms import Order, Retrain
from tests.helpers.made_up import LEVELS, MAIN, SUITE, held, usual

KNOWS = {"grad": -0.06, "var-grad": 0.08, "sobel": -0.03}  # what the own map costs more than another image's
COMMON = replace(
    SUITE,
    name="common",
    blocks=(
        *SUITE.blocks,
        *(Block(protocol, MAIN, LEVELS, seeds=3) for protocol in (SPECIFIC, SPECIFIC_LERF, AUGMENTED)),
    ),
)


def accuracy(cell):
    if cell.retrain is not Retrain.COMMON:
        return usual(cell)
    if cell.estimator == CLEAN:
        return 0.8
    falls = 0.8 - 0.3 * cell.t
    sign = 1 if cell.order is Order.MORF else -1
    return falls if "~" in cell.estimator else falls - sign * KNOWS.get(cell.estimator, 0.0)


@pytest.fixture(scope="module")
def results():
    return held(COMMON, accuracy)


def plain(results, protocol):
    table = suite_table(results, protocol.name, None, None)
    return {row["estimator"]: row for row in json.loads(render(table, "json"))["rows"]}


@pytest.mark.parametrize("protocol", (SPECIFIC, SPECIFIC_LERF))
def test_gains_at_every_level_are_those_that_were_put_in(results, protocol):
    rows = plain(results, protocol)
    for name in MAIN:
        for t in LEVELS:
            assert rows[name]["gains"][str(t)] == pytest.approx(100 * KNOWS.get(name, 0.0), abs=1.5)
    assert {name: rows[name]["verdict"] for name in MAIN} == {
        "random": None,
        "sobel": "worse",
        "grad": "worse",
        "var-grad": "better",
    }


def test_a_table_and_a_picture_say_what_a_gain_is(results):
    tables = {name: suite_table(results, name, None, None) for name in ("specific", "augmented", "roar")}
    assert "accuracy with another image's removal mask, by the same row" in remarks(tables["specific"])
    assert "over Random's removal masks" in remarks(tables["augmented"])
    heading = render(tables["specific"], "markdown").splitlines()[2]
    assert "| gain t=0.3 | gain t=0.9 | t=0.3 | t=0.9 |" in heading
    heights = [chart(table).height for table in tables.values()]
    assert heights == ["specific gain, points", "gain over Random, points", "test accuracy"]
    curves = {curve.estimator: curve for curve in chart(tables["specific"]).curves}
    assert all(curve.accuracy[0] == curve.low[0] == curve.high[0] == 0.0 for curve in curves.values())
    assert curves["var-grad"].accuracy[1] == pytest.approx(0.08, abs=0.015)
    assert curves["var-grad"].low[1] < curves["var-grad"].accuracy[1] < curves["var-grad"].high[1]
