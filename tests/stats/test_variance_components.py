"""Variance of cells over trainings and explained networks: hand-made tables, slow loops and sources' formulas."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import f

from roarbench.stats.correctness_and_gain import Correctness, compute_trapezoid_weights
from roarbench.stats.variance_components import (
    PRIOR_FREEDOMS,
    estimate_prior_freedom,
    estimate_variance_and_shared_fraction,
    estimate_variance_components,
)
from tests.helpers.known_contrasts import LEVELS, make_explained_rows


def make_cell(bits):
    return Correctness(("a",), (0.5,), {("a", 0.5): bits})


def test_shared_and_row_variance_match_mean_squares():
    one_row, opposed = np.array([[1.0, -1.0]]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert estimate_variance_and_shared_fraction(one_row) == (2.0, 1.0, 0), "one row shares all with itself"
    assert estimate_variance_and_shared_fraction(opposed) == (2.0, 0.0, 1), "rows that oppose share nothing"
    variance, _, freedom = estimate_variance_and_shared_fraction(np.array([[1.0, -1.0, np.nan], [2.0, 0.0, -2.0]]))
    assert variance == pytest.approx(10 / 3) and freedom == 1, "a missing reference takes its degree of freedom"
    rows, networks = 5, 4
    table = np.random.default_rng(0).normal(size=(rows, networks)) + np.arange(networks)
    of_rows, of_networks = table.mean(1, keepdims=True), table.mean(0)
    left = ((table - of_rows - of_networks + table.mean()) ** 2).sum() / ((rows - 1) * (networks - 1))
    common = rows * ((of_networks - table.mean()) ** 2).sum() / (networks - 1)
    variance, shared, freedom = estimate_variance_and_shared_fraction(table - of_rows)
    # E[common] = own + rows * shared, E[left] = own: the whole is their weighted mean (Searle et al. 1992, 4.3)
    assert variance == pytest.approx((common + (rows - 1) * left) / rows, rel=1e-12)
    assert shared == pytest.approx(1 - left / variance, rel=1e-12)
    assert freedom == 12


@pytest.mark.parametrize("trainings", [1, 2])
def test_network_variance_matches_mean_squares(trainings):
    board = make_explained_rows(rows=4, networks=3, trainings=trainings, seed=8)
    found = estimate_variance_components([board]).references
    weights = compute_trapezoid_weights((0.0, *LEVELS))[1:]
    rows = [[[board.correct[f"e{row}", t][r::3].mean(0) for t in LEVELS] for r in range(3)] for row in range(4)]
    answers = np.array(rows)  # rows, references, levels, images
    areas = np.einsum("t,krti->kri", weights, answers)
    rest = areas - areas.mean(1, keepdims=True) - areas.mean(2, keepdims=True) + areas.mean((1, 2), keepdims=True)
    deviations = answers.mean(3) - answers.mean((1, 3))[:, None]
    assert found.variance == pytest.approx(((deviations @ weights) ** 2).sum() / 8, rel=1e-9)
    assert found.noise == pytest.approx((rest**2).sum() / (60 - 1) / 60 / 8, rel=1e-9)
    covariance = np.einsum("krt,kru->tu", deviations, deviations) / 8
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-9)
    assert (found.own_freedom, found.levels) == (6, LEVELS)
    own = 3 / 4 * found.variance * (1 - found.shared)  # Satterthwaite's, of a sum of two mean squares
    common = found.variance - own
    assert 0 < found.shared < 1
    assert found.freedom == pytest.approx(found.variance**2 / (common**2 / 2 + own**2 / 6), rel=1e-12)


def test_prior_freedom_is_harmonic_mean_under_f_likelihood():
    squares, freedom = np.array([0.2, 0.5, 1.1, 2.2]), np.array([2, 2, 2, 1])
    mean = 5.8 / 7
    likelihood = np.array([np.prod(f(freedom, prior).pdf(squares / mean)) for prior in PRIOR_FREEDOMS])
    expected = likelihood.sum() / (likelihood / PRIOR_FREEDOMS).sum()
    assert estimate_prior_freedom(squares, freedom) == pytest.approx(expected, rel=1e-9)
    alike, apart = (estimate_prior_freedom(np.array([1.0] * 8 + [last]), np.full(9, 4)) for last in (1.0, 25.0))
    assert alike > 10 > 3.3 > apart


def test_training_variance_matches_manual_computation():
    # One training answers all six images, the other half of them: a variance of 1/8, of which 1/40 is noise
    found = estimate_variance_components([make_cell(np.arange(6) < np.array([[6], [3]]))]).trainings
    assert (found.variance, found.noise, found.freedom) == (pytest.approx(1 / 8), pytest.approx(1 / 40), 1)
    assert found.deviation_without_image_noise**2 == pytest.approx(1 / 10)
    single, double = (estimate_variance_components([make_explained_rows(4, 3, trainings)]) for trainings in (1, 2))
    assert single.trainings.freedom == 2 * 2  # Random's alone
    assert double.trainings.freedom == 2 * 5 + 4 * 2 * 3  # and one for each pair on a row's reference
    assert estimate_variance_components([make_explained_rows(4, 1)]) is None
    # a single run varies with its reference, else with its training
    alone, found = estimate_variance_components([make_explained_rows(4, 1, trainings=2)]), double.references
    at = np.sqrt(found.covariance[1, 1] * (1 - found.noise / found.variance))
    assert double.compute_run_standard_deviation(True, 0.9) == pytest.approx(at, rel=1e-12)
    assert double.compute_run_standard_deviation(False, 0.9) == double.trainings.deviation_without_image_noise
    assert alone.references is None
    assert alone.compute_run_standard_deviation(True, 0.9) == alone.trainings.deviation_without_image_noise


def test_variance_components_ignore_order_of_rows_and_runs_and_duplicates():
    board = make_explained_rows(4, 3)
    correct, references = dict(board.correct), dict(board.references)
    turned = replace(board, correct=dict(reversed(correct.items())), references=dict(reversed(references.items())))
    for t in LEVELS:
        correct["twin", t], references["twin", t] = correct["e0", t].copy(), references["e0", t]
    named = Correctness((*board.estimators, "twin"), LEVELS, correct, references=references)
    once = estimate_variance_components([board])
    for boards in ([turned], [named], [board, board]):
        first, other = once.references, estimate_variance_components(boards).references
        np.testing.assert_array_equal(first.covariance, other.covariance)
        assert (first.variance, first.shared, first.prior_freedom) == (
            other.variance,
            other.shared,
            other.prior_freedom,
        )
        assert once.trainings.freedom == estimate_variance_components(boards).trainings.freedom
    # two cells with equal runs in another order are one
    runs = board.correct["random", 0.5]
    added = [replace(board, correct={**board.correct, ("b", 0.5): cell}) for cell in (runs, runs[::-1])]
    assert {estimate_variance_components([each]).trainings.freedom for each in added} == {once.trainings.freedom}


def test_variance_components_use_available_cells_of_incomplete_row():
    board = make_explained_rows(4, 3)
    correct, references = board.correct, board.references
    del correct["e0", 0.9], references["e0", 0.9]  # a level
    correct["e1", 0.5], references["e1", 0.5] = correct["e1", 0.5][:1], ("r0",)  # all references but one at a level
    found = estimate_variance_components([board]).references
    assert found.levels == LEVELS
    assert found.find_nearest_level(0.8) == found.find_nearest_level(0.9) == 1
    alone = Correctness(("e0",), LEVELS, {("e0", 0.5): correct["e0", 0.5][:1]}, references={("e0", 0.5): ("r0",)})
    assert estimate_variance_components([alone]) is None
