"""The probability of the predicted class: from stored rows to tables, derived again image by image."""

from dataclasses import replace
from statistics import NormalDist, stdev

import numpy as np
import pytest

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.probability_drop import probability_drops
from roarbench.plan.runs import CLEAN
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.report.table import suite_table
from roarbench.report.table_formats import render
from roarbench.store.result import pack_probabilities
from roarbench.terms import Order, Retrain, Unit
from tests.helpers.made_up import IMAGES, LEVELS, MAIN, held
from tests.helpers.tables import rows_of


def with_probabilities(without=()) -> SuiteResults:
    """A store whose probabilities fall with the level, faster for some estimators; some points may lack them."""
    generator, whole = np.random.default_rng(0), held()
    untouched = generator.uniform(0.3, 1.0, IMAGES).astype(np.float32)
    results = {}
    for point, result in whole.results.items():
        cell = point.cell
        if cell.retrain is Retrain.NONE and (cell.estimator, cell.order, cell.t) not in without:
            steep = 0.3 + 0.1 * MAIN.index(cell.estimator) if cell.estimator != CLEAN else 0.0
            noise = generator.uniform(0.9, 1.0, IMAGES) if cell.t else 1.0
            kept = 1 - steep * cell.t if cell.order is Order.MORF else 1 - steep * cell.t**2
            result = replace(result, probability=pack_probabilities((untouched * kept * noise).astype(np.float32)))
        results[point] = result
    return replace(whole, results=results)


def stored(whole, name, order, t):
    """The probabilities of one point, as numbers."""
    (result,) = [
        result
        for point, result in whole.results.items()
        if (point.cell.estimator, point.cell.t, point.cell.retrain) == (name, t, Retrain.NONE)
        and (name == CLEAN or point.cell.order is order)
    ]
    return [float(value) for value in result.probabilities]


@pytest.mark.parametrize("protocol", [MORF, LERF])
def test_falls_by_loops_over_images(protocol):
    whole = with_probabilities()
    found = probability_drops(whole, protocol, Unit.SCALAR, LEVELS)
    assert list(found) == list(MAIN)
    before = stored(whole, CLEAN, protocol.order, 0.0)
    for name, fall in found.items():
        rows = [stored(whole, name, protocol.order, t) for t in LEVELS]
        drops = []
        for image in range(IMAGES):
            drops.append(sum(before[image] - row[image] for row in rows) / len(LEVELS))
        aopc, half = sum(drops) / IMAGES, NormalDist().inv_cdf(0.975) * stdev(drops) / IMAGES**0.5
        assert fall.aopc == pytest.approx((aopc, aopc - half, aopc + half), rel=1e-9)
        for row, probability, change in zip(rows, fall.probabilities, fall.changes, strict=True):
            assert probability.value == pytest.approx(sum(row) / IMAGES, rel=1e-9)
            changes = [abs(one - other) / one for one, other in zip(before, row, strict=True)]
            assert change.value == pytest.approx(sum(changes) / IMAGES, rel=1e-9)
            assert change.low < change.value < change.high
        assert fall.untouched.value == pytest.approx(sum(before) / IMAGES, rel=1e-9)
    assert found["random"].aopc.value < found["var-grad"].aopc.value


def test_what_is_missing_is_missing():
    gap = ("grad", Order.MORF, 0.9)
    found = probability_drops(with_probabilities({gap}), MORF, Unit.SCALAR, LEVELS)
    assert found["grad"].aopc == (None, None, None)
    assert (found["grad"].probabilities[1].value, found["grad"].changes[1].value) == (None, None)
    assert found["grad"].probabilities[0].value > 0
    assert found["var-grad"].aopc.value > 0
    assert probability_drops(with_probabilities({gap}), LERF, Unit.SCALAR, LEVELS)["grad"].aopc.value > 0
    assert probability_drops(with_probabilities({(CLEAN, Order.MORF, 0.0)}), MORF, Unit.SCALAR, LEVELS) == {}
    assert probability_drops(held(), MORF, Unit.SCALAR, LEVELS) == {}  # rows from before they were stored
    assert probability_drops(with_probabilities(), ROAR, Unit.SCALAR, LEVELS) == {}
    assert probability_drops(with_probabilities(), MORF, Unit.PIXEL, LEVELS) == {}


@pytest.mark.parametrize("wrong", [np.nan, 1.1])
def test_what_is_no_probability_is_missing(wrong):
    whole = with_probabilities()
    for point, result in whole.results.items():
        if (point.cell.estimator, point.cell.order, point.cell.t) == ("grad", Order.MORF, 0.9) and result.probability:
            damaged = result.probabilities.copy()
            damaged[3] = wrong
            whole.results[point] = replace(result, probability=pack_probabilities(damaged))
    found = probability_drops(whole, MORF, Unit.SCALAR, LEVELS)
    assert found["grad"].aopc.value is None
    assert found["random"].aopc.value is not None


def rows(whole, protocol, style):
    return rows_of(suite_table(whole, protocol, None, None), style)


@pytest.mark.slow
def test_tables_have_them_where_nothing_is_retrained():
    whole = with_probabilities({("grad", Order.MORF, 0.9)})
    found = probability_drops(whole, MORF, Unit.SCALAR, LEVELS)
    plain, flat = rows(whole, "morf", "json"), rows(whole, "morf", "csv")
    row, fall = plain["var-grad"], found["var-grad"]
    assert (row["aopc"], row["aopc_low"], row["aopc_high"]) == fall.aopc
    assert list(row["probability"].values()) == [each.value for each in (fall.untouched, *fall.probabilities)]
    assert list(row["relative_change_high"].values()) == [each.high for each in fall.changes]
    assert flat["var-grad"]["relative_change_0.9"] == str(row["relative_change"]["0.9"])
    assert plain["grad"]["aopc"] is plain["grad"]["probability"]["0.9"] is None
    assert flat["grad"]["aopc"] == flat["grad"]["probability_0.9"] == ""
    markdown = render(suite_table(whole, "morf", None, None), "markdown")
    (line,) = (line for line in markdown.splitlines() if "| var-grad" in line)
    assert f"{fall.aopc.value:.3f} [{fall.aopc.low:.3f}, {fall.aopc.high:.3f}]" in line
    for protocol in ("roar", "kar", "mask-only"):
        assert not {"aopc", "probability", "relative_change"} & set(rows(whole, protocol, "json")["random"])
