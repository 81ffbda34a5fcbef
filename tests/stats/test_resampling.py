"""Variance of cells over images, trainings and explained networks, and the bootstrap draws that include all three."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import f
from scipy.stats import t as student

from roarbench.stats import resampling as module
from roarbench.stats.bootstrap_intervals import Bootstrap
from roarbench.stats.correctness_and_gain import Correctness, compute_trapezoid_weights
from roarbench.stats.resampling import draw_repetition_noise, draw_resamples
from roarbench.stats.variance_components import (
    PRIOR_FREEDOMS,
    ReferenceVariance,
    TrainingVariance,
    VarianceComponents,
    compute_posterior_over_priors,
    estimate_variance_and_shared_fraction,
    estimate_variance_components,
)

LEVELS = (0.5, 0.9)
MANY = Bootstrap(20_000, seed=2)
CLOSE = 6 * np.sqrt(2 / MANY.resamples)  # a variance of normal draws is known to sqrt(2 / B)
NORMAL = np.random.default_rng(0).normal(size=20_000)
COVARIANCE = np.array([[4.0, 3.0], [3.0, 9.0]]) * 1e-4
KNOWN = ReferenceVariance(
    levels=LEVELS,
    factor=np.linalg.cholesky(COVARIANCE).T,
    variance=2e-4,
    noise=0.0,
    shared=0.5,
    freedom=1e9,
    own_freedom=10**9,
    prior=np.eye(len(PRIOR_FREEDOMS))[-1],
    rows=2,
    digest=bytes(16),
)


def draw_bits(seed, seeds, images, luck=0.0):
    """Draw correctness from difficulties of images and luck of seeds."""
    generator = np.random.default_rng(seed)
    hidden = generator.normal(size=images) + luck * generator.normal(size=(seeds, 1))
    return hidden + generator.normal(size=(seeds, images)) > 0


def make_correctness(cells, seeds, images, luck=0.0):
    bits = {(f"e{index}", 0.5): draw_bits(index, seeds, images, luck) for index in range(cells)}
    return Correctness(tuple(name for name, _ in bits), (0.5,), bits)


def make_cell(bits):
    return Correctness(("a",), (0.5,), {("a", 0.5): bits})


def make_explained_rows(rows, networks, trainings=1, images=60, seed=0):
    """Return rows with explained networks, training s with network s mod their number, and a control."""
    generator = np.random.default_rng(seed)
    names = tuple(f"e{row}" for row in range(rows))
    difficulty = generator.normal(size=images)
    correct = {}
    for point in [(name, t) for name in (*names, "random") for t in LEVELS]:
        luck = 0.5 * generator.normal(size=(networks, 1))[np.arange(networks * trainings) % networks]
        correct[point] = difficulty + luck + generator.normal(size=(networks * trainings, images)) > 0
    which = tuple(f"r{s % networks}" for s in range(networks * trainings))
    return Correctness((*names, "random"), LEVELS, correct, references={(n, t): which for n in names for t in LEVELS})


def find_coverage(draws, end):
    return np.mean(np.abs(draws) < end)


@pytest.mark.parametrize("piece", [module._CHUNK, 90])  # all draws at once, and 4 and 2 of them
def test_image_draws_match_loops_over_drawn_images(monkeypatch, piece):
    monkeypatch.setattr(module, "_CHUNK", piece)
    module.draw_image_counts.cache_clear()
    bits = {("a", 0.5): draw_bits(0, 2, 20), ("b", 0.5): draw_bits(1, 1, 20), ("c", 0.5): draw_bits(2, 5, 20)}
    drawn = np.random.default_rng([4, 0]).integers(20, size=(6, 20))  # stream 0 of seed 4
    draws = draw_resamples(Correctness(("a", "b", "c"), (0.5,), bits), Bootstrap(6, seed=4), None)
    for point, answers in bits.items():
        value, found = draws.get_accuracy(point)
        assert value == pytest.approx(answers.mean(), rel=1e-12)
        for number in range(6):
            total = sum(int(row[image]) for row in answers for image in drawn[number])
            assert found[number] == pytest.approx(total / answers.size, rel=1e-12)


@pytest.mark.parametrize("seeds", [1, 5])
def test_draw_variance_is_sum_of_image_and_seed_variance(seeds):
    """Images add the variance of their means over n, seeds the pooled component over the cell's seeds."""
    resamples, images = 8000, 300
    spread = estimate_variance_components([make_correctness(60, 3, images, luck=0.2)]).trainings
    bits = draw_bits(99, seeds, images, luck=0.2)
    draws = draw_resamples(make_cell(bits), Bootstrap(resamples), VarianceComponents(spread, None))
    whole = spread.variance * spread.freedom / (spread.freedom - 2)  # mean of 1 / chi-squared
    exact = bits.mean(0).var() / images + (whole - spread.noise) / seeds
    assert np.var(draws.resampled) == pytest.approx(exact, rel=6 * np.sqrt(2 / resamples))
    assert abs(draws.resampled.mean() - bits.mean()) < 5 * np.sqrt(exact / resamples)
    # a replication has the same images and twice the luck, with the noise of single images
    assert np.var(draws.repeated) == pytest.approx(2 * whole / seeds, rel=6 * np.sqrt(2 / resamples))


def test_draws_follow_student_t_with_few_trainings():
    """Images that are all correct leave variation to the seed: normal over a root of chi-squared over freedom."""
    spread = TrainingVariance(0.01**2, 0.0, 4, NORMAL / NORMAL.std())
    draws = draw_resamples(make_cell(np.ones((1, 3), bool)), MANY, VarianceComponents(spread, None))
    chance = np.sqrt(2 * 0.95 * 0.05 / MANY.resamples)  # of the draws and of the pool
    assert abs(find_coverage(draws.resampled - 1.0, 0.01 * student(4).ppf(0.975)) - 0.95) < 4 * chance


def test_training_noise_of_cell_depends_only_on_its_correctness():
    board = make_correctness(6, 2, 300, luck=0.5)
    board = replace(board, correct={**board.correct, ("twin", 0.5): board.correct["e0", 0.5].copy()})
    some = replace(board, correct=dict([*board.correct.items()][4:1:-1]))  # fewer, in another order
    spread, bootstrap = estimate_variance_components([board]), Bootstrap(4000)
    whole, part = (draw_resamples(each, bootstrap, spread) for each in (board, some))
    images = draw_resamples(board, bootstrap, None)
    own = dict(zip(board.correct, (whole.resampled - images.resampled).T, strict=True))
    assert abs(np.corrcoef(own["e0", 0.5], own["e1", 0.5])[0, 1]) < 5 / np.sqrt(4000)
    np.testing.assert_array_equal(whole.get_accuracy(("e0", 0.5)).draws, whole.get_accuracy(("twin", 0.5)).draws)
    for point in some.correct:
        np.testing.assert_array_equal(whole.get_accuracy(point).draws, part.get_accuracy(point).draws)
    assert (whole.resampled != draw_resamples(board, Bootstrap(4000, seed=2), spread).resampled).any()


def draw_deviations(references, trainings=None, *, whole=False):
    """Draw deviations of the cells: true ones, or with the noise of single images."""
    rows = make_explained_rows(2, 2)
    draws = draw_repetition_noise(rows, MANY, VarianceComponents(trainings, references))[whole]
    return dict(zip(rows.correct, draws.T, strict=True))


def test_network_variance_adds_curve_covariance_to_rows_but_not_controls():
    found = draw_deviations(KNOWN, TrainingVariance(0.03**2, 0.0, 10**9, NORMAL / NORMAL.std()))
    assert np.var(found["e0", 0.5]) == pytest.approx(4e-4 / 2, rel=CLOSE)
    assert np.var(found["e0", 0.9]) == pytest.approx(9e-4 / 2, rel=CLOSE)
    assert np.cov(found["e0", 0.5], found["e0", 0.9])[0, 1] == pytest.approx(3e-4 / 2, rel=2 * CLOSE)
    assert np.var(found["random", 0.9]) == pytest.approx(0.03**2 / 2, rel=2 * CLOSE)
    assert abs(np.corrcoef(found["random", 0.9], found["e0", 0.9])[0, 1]) < 6 / np.sqrt(MANY.resamples)
    np.testing.assert_array_equal(found["e0", 0.9], draw_deviations(KNOWN)["e0", 0.9])
    np.testing.assert_array_equal(draw_deviations(KNOWN)["random", 0.9], 0)
    for shared in (0.0, 0.5, 1.0):  # differences are drawn jointly
        found = draw_deviations(replace(KNOWN, shared=shared))
        one, other = found["e0", 0.9], found["e1", 0.9]
        assert np.corrcoef(one, other)[0, 1] == pytest.approx(shared, abs=6 / np.sqrt(MANY.resamples))
        assert np.var(one - other) == pytest.approx((1 - shared) * 9e-4, rel=CLOSE, abs=1e-6)


def test_draws_follow_student_t_with_few_explained_networks():
    """One row, R = 2: a normal over the root of one degree of freedom, however uncertain the shared part is."""
    chance = np.sqrt(0.95 * 0.05 / MANY.resamples)
    for freedom in (1.0, 4.0):
        found = draw_deviations(replace(KNOWN, freedom=freedom, shared=1.0, own_freedom=0))["e0", 0.9]
        assert abs(find_coverage(found, 0.03 / np.sqrt(2) * student(freedom).ppf(0.975)) - 0.95) < 5 * chance
    found = draw_deviations(replace(KNOWN, freedom=4.0, own_freedom=8))
    difference = found["e0", 0.9] - found["e1", 0.9]
    assert abs(find_coverage(difference, np.sqrt(0.5) * 0.03 * student(8).ppf(0.975)) - 0.95) < 5 * chance


def test_image_noise_enters_replication_but_not_true_deviations():
    noisy = replace(KNOWN, noise=0.25 * KNOWN.variance)
    true, whole = draw_deviations(noisy), draw_deviations(noisy, whole=True)
    for found, own, apart in ((true, 0.75, 0.5 - 0.25), (whole, 1.0, 0.5)):  # each row's own: none of it is shared
        assert np.var(found["e0", 0.9]) == pytest.approx(own * 9e-4 / 2, rel=CLOSE)
        assert np.var(found["e0", 0.9] - found["e1", 0.9]) == pytest.approx(apart * 9e-4, rel=CLOSE)
    draws = draw_resamples(make_explained_rows(2, 2), MANY, VarianceComponents(None, noisy))
    repeated = draws.replication.get_accuracy(("e0", 0.9)).draws
    assert np.var(repeated) == pytest.approx(2 * 9e-4 / 2, rel=CLOSE)


@pytest.mark.parametrize("prior", [1.0, 4.0])
def test_row_variance_is_moderated_as_by_smyth(prior):
    """Draws follow Student's t of prior and own degrees of freedom, times the root of the moderated variance."""
    scores, chosen = make_explained_rows(2, 3), np.eye(len(PRIOR_FREEDOMS))[np.abs(PRIOR_FREEDOMS - prior).argmin()]
    prior = float(PRIOR_FREEDOMS @ chosen)
    answers = [scores.correct["e0", t].mean(1) for t in LEVELS]
    square = np.var(compute_trapezoid_weights((0.0, *LEVELS))[1:] @ np.array(answers), ddof=1)
    moderated = (prior + 2 * square / KNOWN.variance) / (prior + 2)
    true, _ = draw_repetition_noise(scores, MANY, VarianceComponents(None, replace(KNOWN, prior=chosen, shared=0.0)))
    end = 0.03 / np.sqrt(3) * np.sqrt(moderated) * student(prior + 2).ppf(0.95)
    first = find_coverage(true[:, 1], end)  # the first row at t = .9
    assert abs(first - 0.9) < 5 * np.sqrt(0.9 * 0.1 / MANY.resamples)


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
    np.testing.assert_allclose(found.factor.T @ found.factor, covariance, rtol=1e-9)
    assert (found.own_freedom, found.levels) == (6, LEVELS)
    own = 3 / 4 * found.variance * (1 - found.shared)  # Satterthwaite's, of a sum of two mean squares
    common = found.variance - own
    assert 0 < found.shared < 1
    assert found.freedom == pytest.approx(found.variance**2 / (common**2 / 2 + own**2 / 6), rel=1e-12)


def test_posterior_over_priors_matches_f_likelihood():
    squares, freedom = np.array([0.2, 0.5, 1.1, 2.2]), np.array([2, 2, 2, 1])
    mean = 5.8 / 7
    expected = [np.prod(f(freedom, prior).pdf(squares / mean)) for prior in PRIOR_FREEDOMS]
    found = compute_posterior_over_priors(squares, freedom)
    np.testing.assert_allclose(found, np.array(expected) / np.sum(expected), rtol=1e-9)
    equal, one_larger = (np.array([1.0] * 8 + [last]) for last in (1.0, 25.0))
    posteriors = (compute_posterior_over_priors(each, np.full(9, 4)) for each in (equal, one_larger))
    alike, apart = (posterior @ (1 / PRIOR_FREEDOMS) for posterior in posteriors)
    assert alike < 0.1 < 0.3 < apart


def test_training_variance_matches_manual_computation():
    # One training answers all six images, the other half of them: a variance of 1/8, of which 1/40 is noise
    found = estimate_variance_components([make_cell(np.arange(6) < np.array([[6], [3]]))]).trainings
    assert (found.variance, found.noise, found.freedom) == (pytest.approx(1 / 8), pytest.approx(1 / 40), 1)
    assert found.deviation_without_image_noise**2 == pytest.approx(1 / 10)
    assert found.deviations.tolist() == pytest.approx([1, -1])
    single, double = (estimate_variance_components([make_explained_rows(4, 3, trainings)]) for trainings in (1, 2))
    assert single.trainings.freedom == 2 * 2  # Random's alone
    assert double.trainings.freedom == 2 * 5 + 4 * 2 * 3  # and one for each pair on a row's reference
    assert estimate_variance_components([make_explained_rows(4, 1)]) is None
    # a single run varies with its reference, else with its training
    alone, found = estimate_variance_components([make_explained_rows(4, 1, trainings=2)]), double.references
    at = np.sqrt((found.factor[:, 1] ** 2).sum() * (1 - found.noise / found.variance))
    assert double.compute_run_standard_deviation(True, 0.9) == pytest.approx(at, rel=1e-12)
    assert double.compute_run_standard_deviation(False, 0.9) == double.trainings.deviation_without_image_noise
    assert alone.references is None
    assert alone.compute_run_standard_deviation(True, 0.9) == alone.trainings.deviation_without_image_noise


def test_variance_components_ignore_row_order_and_duplicates():
    board = make_explained_rows(4, 3)
    correct, references = dict(board.correct), dict(board.references)
    turned = replace(board, correct=dict(reversed(correct.items())), references=dict(reversed(references.items())))
    for t in LEVELS:
        correct["twin", t], references["twin", t] = correct["e0", t].copy(), references["e0", t]
    named = Correctness((*board.estimators, "twin"), LEVELS, correct, references=references)
    once = estimate_variance_components([board])
    for boards in ([turned], [named], [board, board]):
        first, other = once.references, estimate_variance_components(boards).references
        np.testing.assert_array_equal(first.factor, other.factor)
        assert (first.variance, first.shared, first.digest) == (other.variance, other.shared, other.digest)
        assert once.trainings.freedom == estimate_variance_components(boards).trainings.freedom


def test_variance_components_use_available_cells_of_incomplete_row():
    board = make_explained_rows(4, 3)
    correct, references = board.correct, board.references
    del correct["e0", 0.9], references["e0", 0.9]  # a level
    correct["e1", 0.5], references["e1", 0.5] = correct["e1", 0.5][:1], ("r0",)  # all references but one at a level
    found = estimate_variance_components([board]).references
    assert found.levels == LEVELS
    between, known = (found.get_nearest_factor_column(t).tolist() for t in (0.8, 0.9))
    assert between == known
    alone = Correctness(("e0",), LEVELS, {("e0", 0.5): correct["e0", 0.5][:1]}, references={("e0", 0.5): ("r0",)})
    assert estimate_variance_components([alone]) is None
