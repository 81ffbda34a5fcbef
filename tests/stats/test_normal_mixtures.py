"""Tail probabilities and half widths: Student's t, numerical integration, simulation, and bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import erfc
from scipy.stats import chi2, norm
from scipy.stats import t as student

from roarbench.stats.normal_mixtures import (
    LARGE_FREEDOM,
    Spread,
    compute_erfc,
    compute_exp,
    compute_half_widths,
    compute_p_values,
    reduce_to_two_estimates,
)


def make_spread(*parts):
    """Return the spread of one number from pairs of a variance and its degrees of freedom."""
    return Spread(*(np.array([column]) for column in zip(*parts, strict=True)))


@pytest.mark.parametrize("freedom", [1, 2, 3.7, 9, 40, 400])
def test_one_estimated_variance_gives_student_t(freedom):
    spread = make_spread((4.0, freedom), (0.0, np.inf))
    assert compute_p_values(np.zeros(1), spread)[0] == 1
    for size in (0.3, 2.0, 9.0, 30.0):
        assert compute_p_values(np.array([-size]), spread)[0] == pytest.approx(
            2 * student(freedom).sf(size / 2), rel=1e-9
        )
    for confidence in (0.5, 0.95, 0.999):
        expected = 2 * student(freedom).ppf((1 + confidence) / 2)
        assert compute_half_widths(spread, confidence)[0] == pytest.approx(expected, rel=1e-9)


def test_known_variance_gives_normal_and_no_variance_no_evidence():
    spread = Spread(np.array([[3.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), np.array([[np.inf, LARGE_FREEDOM]] * 3))
    assert compute_half_widths(spread, 0.95) == pytest.approx([2 * norm.ppf(0.975), 0, 0], rel=1e-12)
    assert compute_p_values(np.array([2.0, 0.0, 0.1]), spread) == pytest.approx([2 * norm.sf(1.0), 1, 1], rel=1e-12)


@pytest.mark.parametrize(("known", "variance", "freedom"), [(1.0, 2.0, 2), (0.2, 1.0, 5), (3.0, 0.5, 60)])
def test_known_and_estimated_variance_match_numerical_integration(known, variance, freedom):
    def integrand(quantile):
        return 2 * norm.sf(4.0 / np.sqrt(known + variance * freedom / chi2(freedom).ppf(quantile)))

    expected = quad(integrand, 0, 1, epsabs=1e-12, epsrel=1e-12, limit=500)[0]
    found = compute_p_values(np.array([4.0]), make_spread((known, np.inf), (variance, freedom)))[0]
    assert found == pytest.approx(expected, rel=1e-8)


def test_two_estimated_variances_match_simulation_and_merge_at_most_freedom():
    chance = np.random.default_rng(0)
    drawn = chance.standard_normal(400_000)
    drawn *= np.sqrt(1 + 2 * 3 / chance.chisquare(3, len(drawn)) + 1.5 * 8 / chance.chisquare(8, len(drawn)))
    two = make_spread((1.0, np.inf), (2.0, 3), (1.5, 8))
    assert compute_p_values(np.array([5.0]), two)[0] == pytest.approx(np.mean(np.abs(drawn) > 5), rel=0.03)
    known, estimated, freedoms = reduce_to_two_estimates(make_spread((1.0, 20), (2.0, 3), (1.5, 8)))
    merged = 2.5**2 / (1.0**2 / 20 + 1.5**2 / 8)
    assert (known.tolist(), estimated.tolist(), freedoms.tolist()) == ([0.0], [[2.0, 2.5]], [[3.0, merged]])


@given(
    st.lists(st.tuples(st.floats(1e-6, 1e3), st.sampled_from([1.0, 2.0, 4.3, 50.0, np.inf])), min_size=3, max_size=3),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_interval_excludes_0_exactly_if_p_is_small(parts, confidence):
    spread = make_spread(*parts)
    half = compute_half_widths(spread, confidence)
    assert compute_p_values(half, spread)[0] == pytest.approx(1 - confidence, rel=1e-9)
    assert compute_p_values(half * 1.001, spread)[0] < 1 - confidence < compute_p_values(half * 0.999, spread)[0]


def test_exponential_function_equals_that_of_numpy():
    values = np.concatenate([np.linspace(-700, 5, 7_001), np.linspace(-1, 1, 7_001)])
    np.testing.assert_allclose(compute_exp(values), np.exp(values), rtol=5e-16)
    assert compute_exp(np.array([0.0, -1e4])).tolist() == [1.0, pytest.approx(0, abs=1e-300)]


def test_complementary_error_function_equals_that_of_scipy():
    values = np.concatenate([np.linspace(0, 6, 20_001), np.linspace(6, 26, 5_001)])
    np.testing.assert_allclose(compute_erfc(values[:20_001]), erfc(values[:20_001]), rtol=1e-14)
    np.testing.assert_allclose(compute_erfc(values), erfc(values), rtol=1e-8)
    assert compute_erfc(np.array([[0.0, 1e300]])).tolist() == [[1.0, pytest.approx(0, abs=1e-300)]]
