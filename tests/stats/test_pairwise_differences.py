"""Pairwise differences of gains, rank intervals, agreement of two boards, and ratios."""

from itertools import combinations

import numpy as np
import pytest
from scipy.special import erf
from scipy.stats import binomtest, norm, studentized_range
from scipy.stats import t as student

from roarbench.stats.board_agreement import compute_agreement
from roarbench.stats.contrasts import measure_means
from roarbench.stats.intervals import Estimate, estimate, estimate_ratio, estimate_shares
from roarbench.stats.normal_mixtures import Spread, list_variance_factors
from roarbench.stats.rank_intervals import (
    Pairs,
    compute_rank_intervals,
    find_significant_pairs,
    rank_by_gain,
)
from tests.helpers.known_contrasts import make_contrasts


def test_pairs_equal_differences_of_contrasts():
    covariance = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 3.0]])
    made = make_contrasts([1.5, -0.5, 4.0], covariance)
    pairs = Pairs.from_contrasts(made)
    for number, (one, other) in enumerate(combinations(range(3), 2)):
        found = estimate(made[one].subtract(made[other]))
        half = norm.ppf(0.975) * np.sqrt(covariance[one, one] + covariance[other, other] - 2 * covariance[one, other])
        assert pairs.differences[number] == found.value
        assert pairs.half_widths[number] == pytest.approx(half)
        assert (found.value - found.low, found.high - found.value) == pytest.approx((half, half))


def test_rank_intervals_match_manual_computation():
    """Equal gains share the better rank. Under noise of 1, a difference of 1 is a tie and one of 20 is significant."""
    assert [place.place for place in rank_by_gain(np.array([3.0, 5.0, 3.0, -1.0]))] == [2, 1, 2, 4]
    assert rank_by_gain(np.array([1.0]))[0].low is None
    found = compute_rank_intervals(Pairs.from_contrasts(make_contrasts([20.0, 0.0, 21.0, -20.0, 0.5])))
    places = [(one.place, one.low, one.high) for one in found]
    assert places == [(2, 1, 2), (4, 3, 4), (1, 1, 2), (5, 5, 5), (3, 3, 4)]


def test_added_rows_are_ranked_alone():
    """The suite's rows have gains 0 and 10; of the added ones, 9.5 and 10.5 tie, and 30 differs from all rows."""
    pairs = Pairs.from_contrasts(make_contrasts([0.0, 10.0, 9.5, 30.0, 10.5]), added=(2, 3, 4))
    found = compute_rank_intervals(pairs, added=(2, 3, 4))
    assert [(one.place, one.low, one.high) for one in found] == [(2, 2, 2), (1, 1, 1), (2, 1, 2), (1, 1, 1), (1, 1, 2)]
    assert [one.added for one in found] == [False, False, True, True, True]


def find_significant_pairs_by_steps(gains, deviation):
    """With known variances this is Holm's (1979) step-down with Sidak's (1967) bound for the pairs that are left."""
    p_of = {
        (one, other): 2 * norm.sf(abs(gains[one] - gains[other]) / deviation / np.sqrt(2))
        for one, other in combinations(range(len(gains)), 2)
    }
    apart = np.zeros((len(gains), len(gains)), dtype=bool)
    for left, (pair, p) in zip(range(len(p_of), 0, -1), sorted(p_of.items(), key=lambda item: item[1]), strict=True):
        if (1 - p) ** left < 0.95:
            break
        apart[pair] = apart[pair[::-1]] = True
    return apart


@pytest.mark.parametrize("seed", range(6))
def test_significant_pairs_of_known_variance_match_holm(seed):
    gains = np.random.default_rng(seed).normal(size=8) * 4
    expected = find_significant_pairs_by_steps(gains, 1.0)
    assert expected.any() and not expected.all()
    pairs = Pairs.from_contrasts(make_contrasts(gains))
    for guess in (np.inf, 0.0, 1.0, 2.0):  # of every critical value, in half widths
        pairs.critical_values.update(dict.fromkeys(range(len(expected) ** 2), guess))
        np.testing.assert_array_equal(find_significant_pairs(pairs), expected)


def test_critical_value_of_shared_variance_is_between_tukey_and_bonferroni():
    """With one shared variance of 4 degrees of freedom, the exact critical value of 10 rows is Tukey's (1949)."""
    count, freedom = 10, 4
    tukey, alone = studentized_range(count, freedom).ppf(0.95) / np.sqrt(2), student(freedom)
    pairs = count * (count - 1) // 2
    bonferroni = alone.ppf(1 - 0.025 / pairs)

    def is_significant(size):
        spread = Spread(np.full((pairs, 1), 2.0), np.full((pairs, 1), float(freedom)))
        return find_significant_pairs(Pairs(np.array([size * np.sqrt(2)] + [0.0] * (count - 1)), spread, spread)).any()

    assert not is_significant(tukey * 0.999) and is_significant(tukey * 1.12)
    assert tukey * 1.12 < bonferroni * 0.85


@pytest.mark.parametrize("seed", range(3))
def test_significant_pairs_come_from_all_quadrature_nodes(seed):
    """Few nodes only guess the critical value; the pairs that are found are those of all nodes."""
    chance, count = np.random.default_rng(seed), 10
    values, pairs = chance.normal(0, 4, count), count * (count - 1) // 2
    spread = Spread(chance.uniform(0.2, 1, (pairs, 3)), np.tile([np.inf, 2.0, 9.0], (pairs, 1)))
    made = Pairs(values, spread, spread)
    factors, weights = list_variance_factors((2.0, 9.0))
    deviations = np.sqrt(2 * (spread.variances[:, :1] + spread.variances[:, 1:] @ factors))
    ratios, left = np.abs(made.differences) / made.half_widths, np.ones(pairs, bool)
    while True:
        scaled = made.half_widths[left, None] / deviations[left]
        above = left & np.array([erf(ratio * scaled).prod(0) @ weights >= 0.95 for ratio in ratios])
        if not above.any():
            break
        left &= ~above
    assert 0 < (~left).sum() < pairs
    assert find_significant_pairs(made)[np.triu_indices(count, 1)].tolist() == (~left).tolist()


@pytest.mark.parametrize(("images", "constant"), [(6, False), (60, True)])
def test_significant_pairs_include_constant_gaps_of_many_images(images, constant):
    """A gap that is the same on each of six images may be chance; equal rows never differ."""
    contrasts = make_contrasts([1.0, 1.0, 2.0, 90.0], np.diag([0, 0, 0, 1]) + np.ones((4, 4)), images)
    apart = find_significant_pairs(Pairs.from_contrasts(contrasts))
    assert not apart[0, 1] and apart[0, 2] == apart[1, 2] == constant and apart[:3, 3].all()


def make_gains(values):
    """Return gains with noise of a tenth, by estimator; equal values share their noise."""
    equal = np.equal.outer([*values.values()], [*values.values()])
    return dict(zip(values, make_contrasts([*values.values()], 0.01 * equal), strict=True))


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
    found = compute_agreement(make_gains(one), make_gains(other))
    assert (found.tau, found[1:]) == (pytest.approx(tau), counts)


def test_estimate_ratio_matches_manual_computation():
    """Half widths of 3 (part) and 4 (whole) about 10 and 5, uncorrelated: 9 c^2 - 100 c + 91 = 0."""
    unit = norm.ppf(0.975)
    part, whole = make_contrasts([10.0, 5.0], np.diag([3.0, 4.0]) ** 2 / unit**2)
    assert estimate_ratio(part, whole) == pytest.approx((2.0, 1.0, 91 / 9))
    assert estimate_ratio(part, part) == pytest.approx((1.0, 1.0, 1.0)), "the whole, without width"
    (constant,) = make_contrasts([4.0], 0.0)
    assert estimate_ratio(constant, constant) == pytest.approx((1.0, 1.0, 1.0))
    for value in (3.9, 0.0, -8.0):
        part, whole = make_contrasts([10.0, value], np.diag([3.0, 4.0]) ** 2 / unit**2)
        assert estimate_ratio(part, whole) == Estimate(), "no share of nothing"


@pytest.mark.parametrize(("right", "images"), [(49, 50), (1, 30), (50, 50), (0, 12), (500, 1000)])
def test_intervals_of_accuracies_are_wilsons_and_inside_0_and_1(right, images):
    bits = (np.arange(images) < right).astype(float)
    (mean,) = measure_means(bits[None])
    found = estimate_shares({"": mean})[""]
    low, high = binomtest(right, images).proportion_ci(method="wilson")
    assert found.value == right / images and 0 <= found.low <= found.value <= found.high <= 1
    assert found[1:] == pytest.approx((low, high), abs=0.04 if images < 100 else 1e-4)  # Student's t of few images
