"""The toy experiment equals closed forms: least squares, and accuracy by the angle between two Gaussians."""

import numpy as np
import pytest

from toy import linear
from toy.linear import FEATURES, Examples, ToyWorld, compute_accuracy, degrade, fit_linear_model

DRAWS = 20


def compute_best_accuracy(world, kept):
    """Compute the best accuracy of a linear classifier on the kept features: q(S) in the docstring of `linear`."""
    a, d = world.signal[kept], world.distractor[kept]
    q = a @ a - (a @ d) ** 2 / (0.01 + d @ d)
    return 1 - np.arccos(np.sqrt(q / (1 + q))) / np.pi


@pytest.fixture(scope="module")
def draws():
    """For each world: examples, scores [ranking, retrained or not, level], best accuracies of the inverted ranking."""
    found = []
    for scored, rng in zip(*(np.random.default_rng(0).spawn(DRAWS) for _ in range(2)), strict=True):
        world = linear.draw_world(rng)
        train, test = (linear.draw_examples(world, count, rng) for count in (linear.TRAIN, linear.TEST))
        inverted = linear.compute_true_ranking(world, rng)[::-1]
        best = [compute_best_accuracy(world, inverted[k:]) for k in range(FEATURES)]
        found.append((train, test, np.array(linear.score_rankings_in_random_world(scored)), best))
    return found


@pytest.mark.parametrize("t", [0, 0.5, 15 / 16, 1])
def test_fit_linear_model_matches_numpy_least_squares(t):
    rng = np.random.default_rng(1)
    x, y = linear.draw_examples(linear.draw_world(rng), 200, rng)
    x = degrade(x, rng.permutation(FEATURES), t, x.mean(axis=0))
    expected = np.linalg.lstsq(np.column_stack([x, np.ones(200)]), y)[0]
    # the normal equations have a condition number below 1e5 here: errors stay near 1e-11
    np.testing.assert_allclose(fit_linear_model(Examples(x, y)), expected, atol=1e-9)


def test_toy_functions_match_manual_values():
    # the line of least squares through (0, 0), (1, 0), (2, 1): -1/6, 1/3, 5/6 against one half
    line, x = np.array([1 / 2, -1 / 6]), np.array([[0.0], [1.0], [2.0]])
    assert compute_accuracy(line, Examples(x, np.array([0.0, 0.0, 1.0]))) == 1
    assert compute_accuracy(line, Examples(x, np.array([0.0, 1.0, 1.0]))) == 2 / 3
    signal = np.zeros(FEATURES)
    signal[:4] = [0.5, -3.0, 0.1, 1.0]
    ranking = linear.compute_true_ranking(ToyWorld(signal, np.ones(FEATURES)), np.random.default_rng(0))
    assert ranking[:4].tolist() == [1, 3, 0, 2]
    assert sorted(ranking[4:]) == list(range(4, 16))
    x = np.arange(32.0).reshape(2, 16)
    before = x.copy()
    degraded = degrade(x, np.arange(16)[::-1], 2 / 16, -np.ones(16))
    assert degraded[:, 14:].tolist() == [[-1, -1], [-1, -1]]
    np.testing.assert_array_equal(degraded[:, :14], before[:, :14])
    np.testing.assert_array_equal(x, before)


def test_level_1_predicts_most_common_training_class(draws):
    assert linear.TRAIN % 2 == 1  # with an even number both classes could be as common, and rounding would answer
    for train, test, scores, _ in draws:
        assert (scores[..., -1] == np.mean(test.y == float(train.y.mean() > 0.5))).all()


def test_retrained_inverted_ranking_reaches_best_possible_accuracy(draws):
    """Accuracy is within four standard errors; 1,001 examples for 17 weights cost under one point."""
    difference = np.array([scores[2, 0, :-1] - best for _, _, scores, best in draws])
    errors = difference.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    assert (difference.mean(axis=0) < 4 * errors).all()
    assert (difference.mean(axis=0) > -0.01 - 4 * errors).all()
