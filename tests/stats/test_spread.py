"""How much cells vary from training to training and from reference to reference, against sums by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import f

from roarbench.stats.curves import Scores, area_weights
from roarbench.stats.reference_spread import PRIORS, components, prior_of
from roarbench.stats.spread import spread_of

LEVELS = (0.5, 0.9)


def explained(rows: int, networks: int, trainings: int = 1, images: int = 60, seed: int = 0) -> Scores:
    """Rows explained by references, training s by reference s mod their number, and a control."""
    generator = np.random.default_rng(seed)
    names = tuple(f"e{row}" for row in range(rows))
    difficulty = generator.normal(size=images)
    correct = {}
    for point in [(name, t) for name in (*names, "random") for t in LEVELS]:
        luck = 0.5 * generator.normal(size=(networks, 1))[np.arange(networks * trainings) % networks]
        correct[point] = difficulty + luck + generator.normal(size=(networks * trainings, images)) > 0
    which = tuple(f"r{s % networks}" for s in range(networks * trainings))
    return Scores((*names, "random"), LEVELS, correct, references={(n, t): which for n in names for t in LEVELS})


def test_components_by_hand_and_by_mean_squares():
    # Two rows, two references: deviations of 1 and of 3, in common 2, left 1
    variance, shared, freedom = components(np.array([[1.0, -1.0], [3.0, -3.0]]))
    assert (variance, freedom) == (10.0, 1)  # (1 + 1 + 9 + 9) / 2
    assert shared == pytest.approx(1 - 4 / 10)  # four times 1, one degree of freedom
    assert components(np.array([[1.0, -1.0]])) == (2.0, 1.0, 0), "one row shares all with itself"
    assert components(np.array([[1.0, -1.0], [-1.0, 1.0]])) == (2.0, 0.0, 1), "rows that oppose share nothing"
    variance, _, freedom = components(np.array([[1.0, -1.0, np.nan], [2.0, 0.0, -2.0]]))
    assert variance == pytest.approx(10 / 3) and freedom == 1, "a missing reference takes its degree of freedom"
    rows, networks = 5, 4
    table = np.random.default_rng(0).normal(size=(rows, networks)) + np.arange(networks)
    of_rows, of_networks = table.mean(1, keepdims=True), table.mean(0)
    left = ((table - of_rows - of_networks + table.mean()) ** 2).sum() / ((rows - 1) * (networks - 1))
    common = rows * ((of_networks - table.mean()) ** 2).sum() / (networks - 1)
    variance, shared, freedom = components(table - of_rows)
    # E[common] = own + rows * shared, E[left] = own: the whole is their weighted mean (Searle et al. 1992, 4.3)
    assert variance == pytest.approx((common + (rows - 1) * left) / rows, rel=1e-12)
    assert shared == pytest.approx(1 - left / variance, rel=1e-12)
    assert freedom == 12


@pytest.mark.parametrize("trainings", [1, 2])
def test_the_spread_over_references_by_mean_squares(trainings):
    board = explained(rows=4, networks=3, trainings=trainings)
    found = spread_of([board]).references
    weights = area_weights((0.0, *LEVELS))[1:]
    answers = np.array(
        [[[board.correct[f"e{row}", t][r::3].mean(0) for t in LEVELS] for r in range(3)] for row in range(4)]
    )  # rows, references, levels, images
    areas = np.einsum("t,krti->kri", weights, answers)
    rest = areas - areas.mean(1, keepdims=True) - areas.mean(2, keepdims=True) + areas.mean((1, 2), keepdims=True)
    deviations = answers.mean(3) - answers.mean((1, 3))[:, None]
    assert found.variance == pytest.approx(((deviations @ weights) ** 2).sum() / 8, rel=1e-9)
    assert found.noise == pytest.approx((rest**2).sum() / (60 - 1) / 60 / 8, rel=1e-9)
    covariance = np.einsum("krt,kru->tu", deviations, deviations) / 8
    np.testing.assert_allclose(found.factor.T @ found.factor, covariance, rtol=1e-9)
    assert (found.rows, found.networks, found.own_freedom, found.levels) == (4, 3, 6, LEVELS)


def test_degrees_of_freedom_are_satterthwaites():
    """Of a sum of two mean squares: (a + b)^2 / (a^2 / df_a + b^2 / df_b)."""
    rows, networks = 4, 3
    found = spread_of([explained(rows, networks, seed=8)]).references
    b = (rows - 1) / rows * found.variance * (1 - found.shared)
    a = found.variance - b
    expected = (a + b) ** 2 / (a**2 / (networks - 1) + b**2 / ((rows - 1) * (networks - 1)))
    assert 0 < found.shared < 1
    assert found.freedom == pytest.approx(expected, rel=1e-12)
    assert networks - 1 < found.freedom < rows * (networks - 1)


def test_the_prior_is_the_likelihood_of_f_and_rows_that_differ_more_leave_it_fewer_degrees_of_freedom():
    squares, freedom = np.array([0.2, 0.5, 1.1, 2.2]), np.array([2, 2, 2, 1])
    mean = 5.8 / 7
    expected = [np.prod(f(freedom, prior).pdf(squares / mean)) for prior in PRIORS]
    np.testing.assert_allclose(prior_of(squares, freedom), np.array(expected) / np.sum(expected), rtol=1e-9)
    alike, apart = (prior_of(np.array([1.0] * 8 + [odd]), np.full(9, 4)) @ (1 / PRIORS) for odd in (1.0, 25.0))
    assert alike < 0.1 < 0.3 < apart


def test_the_spread_over_trainings_by_hand():
    # One training answers all six images, the other half of them: a variance of 1/8, of which 1/40 is noise
    bits = np.arange(6) < np.array([[6], [3]])
    spread = spread_of([Scores(("random",), (0.9,), {("random", 0.9): bits})])
    found = spread.trainings
    assert (found.variance, found.noise, found.freedom) == (pytest.approx(1 / 8), pytest.approx(1 / 40), 1)
    assert found.deviation**2 == pytest.approx(1 / 10)
    assert found.deviations.tolist() == pytest.approx([1, -1])
    single, double = (spread_of([explained(4, 3, trainings)]) for trainings in (1, 2))
    assert single.trainings.freedom == 2 * 2  # Random's alone
    assert double.trainings.freedom == 2 * 5 + 4 * 2 * 3  # and one for each pair on a row's reference

    assert spread_of([explained(4, 1)]) is None


def test_a_single_run_varies_with_its_reference_or_with_its_training():
    spread, alone = (spread_of([explained(4, networks, trainings=2, seed=3)]) for networks in (3, 1))
    found = spread.references
    at = np.sqrt((found.factor[:, 1] ** 2).sum() * (1 - found.noise / found.variance))
    assert spread.run_deviation(True, 0.9) == pytest.approx(at, rel=1e-12)
    assert spread.run_deviation(False, 0.9) == spread.trainings.deviation
    assert (alone.references, alone.run_deviation(True, 0.9)) == (None, alone.trainings.deviation)


def test_the_order_of_rows_and_a_second_name_change_nothing():
    board = explained(4, 3)
    correct, references = dict(board.correct), dict(board.references)
    turned = replace(board, correct=dict(reversed(correct.items())), references=dict(reversed(references.items())))
    for t in LEVELS:
        correct["twin", t], references["twin", t] = correct["e0", t].copy(), references["e0", t]
    named = Scores((*board.estimators, "twin"), LEVELS, correct, references=references)
    once = spread_of([board])
    for boards in ([turned], [named], [board, board]):
        first, other = once.references, spread_of(boards).references
        np.testing.assert_array_equal(first.factor, other.factor)
        assert (first.variance, first.shared, first.digest) == (other.variance, other.shared, other.digest)
        assert once.trainings.freedom == spread_of(boards).trainings.freedom


def test_a_row_in_the_making_counts_with_what_it_has():
    board = explained(4, 3)
    correct, references = board.correct, board.references
    del correct["e0", 0.9], references["e0", 0.9]  # a level
    correct["e1", 0.5], references["e1", 0.5] = correct["e1", 0.5][:1], ("r0",)  # all references but one at a level
    found = spread_of([board]).references
    assert found.rows == 3 and found.levels == LEVELS
    assert found.column(0.8).tolist() == found.column(0.9).tolist()  # the nearest that is known
    alone = Scores(("e0",), LEVELS, {("e0", 0.5): correct["e0", 0.5][:1]}, references={("e0", 0.5): ("r0",)})
    assert spread_of([alone]) is None
