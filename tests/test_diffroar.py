"""docs/diffroar.md: what its program asks for and makes of answers, and that it is made of the rows beside it."""

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from roarbench.analysis.evidence import Evidence
from roarbench.plan.points import expand
from roarbench.plan.suite import Block
from roarbench.stats.bootstrap import Bootstrap, Estimate
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import KAR, KAR_EXCHANGED, MASK_ONLY, ROAR, ROAR_EXCHANGED, Order, Retrain
from tests.helpers.command_line import command
from tests.helpers.made_up import SUITE, held, usual

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def program():
    return import_module("diffroar")


def test_a_training_for_each_order_and_level_and_two_at_both_ends_on_one_network(program):
    for trial in program.TRIALS.values():
        points = expand(trial.suite)
        trained = [point for point in points if point.cell.retrain is Retrain.IMAGES]
        for order in Order:
            own = [point for point in trained if (point.cell.estimator, point.cell.order) == ("grad-sq", order)]
            assert sorted((point.cell.t, point.seed) for point in own) == [
                (0.1, 0),
                (0.1, 1),
                (0.3, 0),
                (0.5, 0),
                (0.7, 0),
                (0.9, 0),
                (0.9, 1),
            ]
        assert trial.suite.references == 1
        assert {trial.suite.reference_number(point.seed) for point in points} == {0}
        exchanged = [point.cell for point in points if point.cell.retrain is Retrain.EXCHANGED]
        assert sorted((cell.order, cell.t) for cell in exchanged) == [(Order.LERF, 0.9), (Order.MORF, 0.9)]
        assert len(points) == 2 + 14 + 1 + 2 + 2


def test_the_difference_is_kar_minus_roar_in_points_and_masks_of_kar_are_those_of_the_rest(program, monkeypatch):
    """The made-up truth at t = .9: ROAR .9 - .9 x .3, KAR .9 - .9 x .5; masks reach t."""
    levels = (0.1, 0.9)
    blocks = tuple(Block(protocol, ("grad",), levels, seeds=2) for protocol in (ROAR, KAR, MASK_ONLY))
    results = held(replace(SUITE, blocks=blocks), lambda cell: cell.t if cell.retrain is Retrain.MASKS else usual(cell))
    monkeypatch.setattr(program, "ROW", "grad")
    few, many = program.lines_of(Evidence.of(results, Bootstrap(400)))
    assert (few.t, many.t) == levels
    assert many.gap.value == pytest.approx(-18, abs=2)
    assert many.gap.value == pytest.approx(100 * (many.least.value - many.most.value))
    assert many.gap.low < -18 < many.gap.high
    assert many.most_masks.value == few.least_masks.value == pytest.approx(0.9, abs=0.02)
    assert program.exchanged(Evidence.of(results, Bootstrap(400))) == ""
    assert many.least_masks.value == few.most_masks.value == pytest.approx(0.1, abs=0.02)


def test_without_a_second_training_the_interval_is_that_of_the_images(program, monkeypatch):
    """The standard error of the difference of two shares of the same images, by McNemar's formula."""
    blocks = tuple(Block(protocol, ("grad",), (0.9,), seeds=1) for protocol in (ROAR, KAR))
    results = held(replace(SUITE, blocks=blocks))
    monkeypatch.setattr(program, "ROW", "grad")
    evidence = Evidence.of(results, Bootstrap(2000))
    assert not program.repeated(evidence)
    found = program.gap(evidence, 0.9)
    most, least = (evidence.drawn(order, evidence.unit).scores.correct["grad", 0.9][0] for order in (ROAR, KAR))
    deviation = (least.astype(float) - most).std() / len(most) ** 0.5
    assert found.high - found.value == pytest.approx(100 * 1.96 * deviation, rel=0.08)


def test_an_unfinished_level_is_a_dash(program, tmp_path):
    measured, missing = Estimate(0.5, 0.4, 0.6), Estimate()
    lines = [
        program.Line(t, measured, missing if t == 0.9 else measured, Estimate(2.0, 1.0, 3.0), missing, missing)
        for t in program.LEVELS
    ]
    lines[-1] = lines[-1]._replace(gap=missing)
    rows = program.table(lines, program.TRIALS["cifar10"].beside[0]).splitlines()
    assert rows[2] == "| 0.1 | 50.0 | 50.0 | +2.0 [+1.0, +3.0] | +1.0 ± 0.5 | – | – |"
    assert rows[-1] == "| 0.9 | 50.0 | – | – | -4.8 ± 0.3 | – | – |"


def test_the_page_is_made_of_the_rows_beside_it(program, tmp_path):
    assert command("import", DOCS / "diffroar.parquet", "--store", tmp_path) == 0
    with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
        assert program.tables(store) in (DOCS / "diffroar.md").read_text("utf-8")


def test_networks_that_met_masks_of_other_images_are_told_in_a_sentence(program, monkeypatch):
    """The made-up truth at t = .9: .9 - .9 x .3 with the most important features removed, else .9 - .9 x .5."""
    orders = (ROAR, KAR, ROAR_EXCHANGED, KAR_EXCHANGED)
    blocks = tuple(Block(protocol, ("grad",), (0.9,), seeds=1) for protocol in orders)
    monkeypatch.setattr(program, "ROW", "grad")
    words = program.exchanged(Evidence.of(held(replace(SUITE, blocks=blocks), usual), Bootstrap(400)))
    most, least, gap = re.search(r"t = 0.9: ([\d.]+) and ([\d.]+) %, a difference of ([-+\d.]+) \[", words).groups()
    assert float(most) == pytest.approx(63, abs=2)
    assert float(gap) == pytest.approx(float(least) - float(most), abs=0.11)
    assert float(gap) == pytest.approx(-18, abs=3)
