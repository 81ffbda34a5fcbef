"""Pairwise differences of gains, rank intervals, agreement of two boards, and ratios."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roarbench.stats.board_agreement import compute_agreement
from roarbench.stats.bootstrap_intervals import (
    Estimate,
    Sample,
    compute_half_width,
    compute_quantile,
    estimate_ratio,
    make_estimate,
)
from roarbench.stats.rank_intervals import (
    Pairs,
    compute_rank_intervals,
    find_maximal_tie_groups,
    find_significant_pairs,
    rank_by_gain,
)


@given(st.integers(1, 2001), st.floats(0, 1), st.integers(0, 10_000))
def test_compute_quantile_equals_numpy_quantile(count, part, seed):
    numbers = np.random.default_rng(seed).normal(size=(2, count)) ** 3
    np.testing.assert_array_equal(compute_quantile(numbers, part), np.quantile(numbers, part, axis=-1))


@given(st.integers(0, 8), st.integers(0, 10_000))
def test_pairs_equal_differences_of_samples(size, seed):
    """Equal to the last bit, also for gains that are equal or share their draws."""
    generator = np.random.default_rng(seed)
    draws = generator.normal(size=(max(1, size - 1), 40))
    values = generator.integers(-3, 4, size) / 4
    made = [Sample(float(value), value + draws[generator.integers(len(draws))]) for value in values]
    pairs = Pairs.from_samples(made, 0.9)
    assert pairs.upper_triangle.sum() == size * (size - 1) // 2
    for one, other in combinations(range(size), 2):
        difference = made[one].subtract(made[other])
        assert pairs.upper_triangle[one, other] and not pairs.upper_triangle[other, one]
        assert pairs.differences[one, other] == difference.value == -pairs.differences[other, one]
        assert pairs.half_widths[one, other] == (half := compute_half_width(difference, 0.9))
        assert make_estimate(difference, 0.9) == (difference.value, difference.value - half, difference.value + half)


def draw_normal(gains, deviation, resamples=2000, seed=0):
    noise = np.random.default_rng(seed).normal(size=(len(gains), resamples))
    return gains[:, None] + deviation * noise


def test_rank_intervals_match_manual_computation():
    """Equal gains share the better rank. Under noise of 1, a difference of 1 is a tie and one of 20 is significant."""
    assert [place.place for place in rank_by_gain(np.array([3.0, 5.0, 3.0, -1.0]))] == [2, 1, 2, 4]
    assert rank_by_gain(np.array([1.0]))[0].low is None
    gains = np.array([20.0, 0.0, 21.0, -20.0, 0.5])
    found = compute_rank_intervals(Pairs(gains, draw_normal(gains, 1.0), 0.95))
    places = [(one.place, one.low, one.high) for one in found]
    assert places == [(2, 1, 2), (4, 3, 4), (1, 1, 2), (5, 5, 5), (3, 3, 4)]
    assert [one.groups for one in found] == [(1,), (2,), (1,), (3,), (2,)]


def find_significant_pairs_by_loops(gains, draws, confidence):
    """Romano and Wolf's step-down over all pairs, draw by draw."""
    pairs = {}
    for one, other in combinations(range(len(gains)), 2):
        difference = gains[one] - gains[other]
        deviations = [abs(a - b - difference) for a, b in zip(draws[one], draws[other], strict=True)]
        pairs[one, other] = (abs(difference), deviations, float(np.quantile(deviations, confidence)))
    apart = np.zeros((len(gains), len(gains)), dtype=bool)
    while left := {pair: rest for pair, rest in pairs.items() if not apart[pair]}:
        largest = [max(devs[b] / scale for _, devs, scale in left.values()) for b in range(draws.shape[1])]
        critical = float(np.quantile(largest, confidence))
        new = [pair for pair, (size, _, scale) in left.items() if size / scale > critical]
        if not new:
            break
        for one, other in new:
            apart[one, other] = apart[other, one] = True
    return apart


@pytest.mark.parametrize("seed", range(6))
def test_significant_pairs_match_step_down_by_loops(seed):
    generator = np.random.default_rng(seed)
    gains = generator.normal(size=6) * 4
    draws = draw_normal(gains, 1.0, 200, seed) + generator.normal(size=200)
    expected = find_significant_pairs_by_loops(gains, draws, 0.9)
    assert expected.any() and not expected.all()
    np.testing.assert_array_equal(find_significant_pairs(Pairs(gains, draws, 0.9)), expected)


@pytest.mark.parametrize("common", [draw_normal(np.array([1.0]), 1.0), np.arange(200.0)[None]])  # rounded, and exact
def test_significant_pairs_exclude_equal_rows_and_include_constant_gaps(common):
    gains = np.array([1.0, 1.0, 2.0])
    draws = np.repeat(common, 3, axis=0) + np.array([[0.0], [0.0], [1.0]])
    apart = find_significant_pairs(Pairs(gains, draws, 0.95))
    assert not apart[0, 1] and apart[0, 2] and apart[1, 2]


@given(st.integers(1, 7), st.integers(0, 10_000))
def test_tie_groups_are_all_maximal_sets_without_significant_pair(size, seed):
    generator = np.random.default_rng(seed)
    apart = np.triu(generator.random((size, size)) < generator.random(), 1)
    apart = apart | apart.T
    sets = [frozenset(s) for count in range(1, size + 1) for s in combinations(range(size), count)]
    tied = [s for s in sets if not any(apart[one, other] for one, other in combinations(s, 2))]
    largest = {s for s in tied if not any(s < other for other in tied)}
    groups = find_maximal_tie_groups(generator.normal(size=size), apart)
    assert len(groups) == len(set(groups))
    assert set(groups) == largest


def draw_gains(values, seed):
    """Draw gains with noise of a tenth, by estimator; equal values share their draws."""
    draws = 0.1 * np.random.default_rng(seed).normal(size=(len(values), 500))
    noise = dict(zip(values.values(), draws, strict=True))
    return {name: Sample(value, value + noise[value]) for name, value in values.items()}


@pytest.mark.parametrize(
    ("one", "other", "tau", "counts"),  # rows, settled pairs and those of them in opposite order
    [
        ({"a": 1, "b": 2, "c": 3}, {"a": 10, "b": 30, "c": 31}, (1, 1, 1), (3, 3, 0)),
        ({"a": 1, "b": 2, "c": 3}, {"a": 3, "b": 2, "c": 1}, (-1, -1, -1), (3, 3, 3)),
        ({"a": 1, "b": 2, "c": 3}, {"a": 0, "b": 5, "c": 5.01}, (1, 1 / 3, 1), (3, 2, 0)),  # a pair may fall either way
        ({"a": 1, "b": 2, "c": 3, "twin": 1}, {"a": 1, "b": 2, "c": 3, "twin": 1}, (1, 1, 1), (4, 5, 0)),
        ({"a": 1, "b": 2, "c": 3, "d": 4}, {"e": 0, "b": 2, "c": 3, "a": 1}, (1, 1, 1), (3, 3, 0)),
    ],
)
def test_compute_agreement_matches_manual_counts(one, other, tau, counts):
    found = compute_agreement(draw_gains(one, 0), draw_gains(other, 1), 0.95)
    assert (found.tau, found[1:]) == (pytest.approx(tau), counts)


def test_estimate_ratio_matches_manual_computation():
    """Half widths of 3 (part) and 4 (whole) about 10 and 5, uncorrelated: 9 c^2 - 100 c + 91 = 0."""
    part = Sample(10.0, 10 + 3 * np.array([1.0, 1.0, -1.0, -1.0]))
    up_and_down = np.array([1.0, -1.0, 1.0, -1.0])
    assert estimate_ratio(part, Sample(5.0, 5 + 4 * up_and_down), 0.95) == pytest.approx((2.0, 1.0, 91 / 9))
    for same in (part, Sample(4.0, np.full(10, 4.0))):
        assert estimate_ratio(same, same, 0.95) == pytest.approx((1.0, 1.0, 1.0)), "the whole, without width"
    for value in (3.9, 0.0, -8.0):
        assert estimate_ratio(part, Sample(value, value + 4 * up_and_down), 0.95) == Estimate(), "no share of nothing"
