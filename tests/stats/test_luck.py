from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import Bits, Floats, Point, Scores, area_weights
from roarbench.stats.draws import draw
from roarbench.stats.luck import luck
from roarbench.stats.reference_spread import PRIORS, References
from roarbench.stats.spread import Spread, Trainings

LEVELS = (0.5, 0.9)
MANY = Bootstrap(20_000, seed=2)
COVARIANCE = np.array([[4.0, 3.0], [3.0, 9.0]]) * 1e-4
KNOWN = References(
    levels=LEVELS,
    factor=np.linalg.cholesky(COVARIANCE).T,
    variance=2e-4,
    noise=0.0,
    shared=0.5,
    freedom=1e9,
    own_freedom=10**9,
    prior=np.eye(len(PRIORS))[-1],
    rows=9,
    networks=2,
    digest=bytes(16),
)
CLOSE = 6 * np.sqrt(2 / MANY.resamples)  # a variance of normal draws is known to sqrt(2 / B)


def board(networks: tuple[str, ...] = ("r0", "r1"), rows: tuple[str, ...] = ("a", "b")) -> Scores:
    correct: dict[Point, Bits] = {
        (name, t): np.random.default_rng([ord(name[0]), round(100 * t)]).random((len(networks), 40)) < 0.5
        for name in (*rows, "random")
        for t in LEVELS
    }
    return Scores((*rows, "random"), LEVELS, correct, references={p: networks for p in correct if p[0] != "random"})


def drawn(scores: Scores, references: References, trainings: Trainings | None = None) -> dict[Point, Floats]:
    true, _ = luck(scores, MANY, Spread(trainings, references))
    return dict(zip(scores.correct, true.T, strict=True))


def test_cells_deviate_with_the_covariance_of_curves_over_their_references() -> None:
    found = drawn(board(), KNOWN)
    assert np.var(found["a", 0.5]) == pytest.approx(4e-4 / 2, rel=CLOSE)
    assert np.var(found["a", 0.9]) == pytest.approx(9e-4 / 2, rel=CLOSE)
    between = np.cov(found["a", 0.5], found["a", 0.9])[0, 1]
    assert between == pytest.approx(3e-4 / 2, rel=2 * CLOSE)


def test_rows_share_their_references_luck_and_differences_are_drawn_jointly() -> None:
    for shared in (0.0, 0.5, 1.0):
        found = drawn(board(), replace(KNOWN, shared=shared))
        one, other = found["a", 0.9], found["b", 0.9]
        assert np.corrcoef(one, other)[0, 1] == pytest.approx(shared, abs=6 / np.sqrt(MANY.resamples))
        assert np.var(one - other) == pytest.approx((1 - shared) * 9e-4, rel=CLOSE, abs=1e-6)


def test_controls_deviate_with_their_trainings_alone_and_explained_rows_with_their_references_alone() -> None:
    normal = np.random.default_rng(0).normal(size=4000)
    trainings = Trainings(0.03**2, 0.0, 10**9, normal / normal.std())
    found = drawn(board(), KNOWN, trainings)
    assert np.var(found["random", 0.9]) == pytest.approx(0.03**2 / 2, rel=2 * CLOSE)
    assert abs(np.corrcoef(found["random", 0.9], found["a", 0.9])[0, 1]) < 6 / np.sqrt(MANY.resamples)
    np.testing.assert_array_equal(found["a", 0.9], drawn(board(), KNOWN)["a", 0.9])
    np.testing.assert_array_equal(drawn(board(), KNOWN)["random", 0.9], 0)


def test_few_references_widen_draws_as_students_t_does() -> None:
    """One row, R = 2: a normal over the root of one degree of freedom."""
    for freedom in (1.0, 4.0):
        found = drawn(board(), replace(KNOWN, freedom=freedom, shared=1.0, own_freedom=0))
        end = 0.03 / np.sqrt(2) * student(freedom).ppf(0.975)
        inside = np.mean(np.abs(found["a", 0.9]) < end)
        assert abs(inside - 0.95) < 5 * np.sqrt(0.95 * 0.05 / MANY.resamples)


def test_differences_between_rows_are_as_sure_as_their_own_degrees_of_freedom() -> None:
    """However little is known of the shared part, it cancels."""
    found = drawn(board(), replace(KNOWN, freedom=4.0, own_freedom=8))
    end = np.sqrt(0.5) * 0.03 * student(8).ppf(0.975)
    inside = np.mean(np.abs(found["a", 0.9] - found["b", 0.9]) < end)
    assert abs(inside - 0.95) < 5 * np.sqrt(0.95 * 0.05 / MANY.resamples)


def test_the_noise_of_single_images_is_left_to_the_draws_of_images_but_not_in_a_replication() -> None:
    noisy = replace(KNOWN, noise=0.25 * KNOWN.variance)
    true, whole = luck(board(), MANY, Spread(None, noisy))
    column = list(board().correct).index(("a", 0.9))
    assert np.var(true[:, column]) == pytest.approx(0.75 * 9e-4 / 2, rel=CLOSE)
    assert np.var(whole[:, column]) == pytest.approx(9e-4 / 2, rel=CLOSE)
    other = list(board().correct).index(("b", 0.9))  # the noise is each row's own: none of it is shared
    assert np.var(true[:, column] - true[:, other]) == pytest.approx((0.5 - 0.25) * 9e-4, rel=CLOSE)
    assert np.var(whole[:, column] - whole[:, other]) == pytest.approx(0.5 * 9e-4, rel=CLOSE)
    repeated = draw(board(), MANY, Spread(None, noisy)).repeated
    assert np.var(repeated[:, column]) == pytest.approx(2 * 9e-4 / 2, rel=CLOSE)


@pytest.mark.parametrize("prior", [1.0, 4.0])
def test_a_rows_own_mean_square_counts_beside_the_pooled_one_as_smyth_has_it(prior: float) -> None:
    """Student's t of prior and own degrees of freedom, times the root of the moderated variance."""
    scores, chosen = board(("r0", "r1", "r2")), (min(PRIORS, key=lambda one: abs(one - prior)) == PRIORS).astype(float)
    prior = float(PRIORS[chosen.argmax()])
    answers = [scores.correct["a", t].mean(1) for t in LEVELS]
    square = np.var(area_weights((0.0, *LEVELS))[1:] @ np.array(answers), ddof=1)
    moderated = (prior + 2 * square / KNOWN.variance) / (prior + 2)
    found = drawn(scores, replace(KNOWN, prior=chosen, shared=0.0))["a", 0.9]
    end = 0.03 / np.sqrt(3) * np.sqrt(moderated) * student(prior + 2).ppf(0.95)
    assert abs(np.mean(np.abs(found) < end) - 0.9) < 5 * np.sqrt(0.9 * 0.1 / MANY.resamples)
