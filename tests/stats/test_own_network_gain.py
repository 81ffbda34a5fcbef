"""Own-network gain: manual computation, slow loops over pairs and images, and effects that cancel."""

from itertools import combinations, permutations
from math import isclose
from unittest.mock import Mock

import numpy as np
import pytest

from roarbench.common.enums import Order
from roarbench.plan.protocols import OWN_NETWORK, OWN_NETWORK_LERF, Protocol
from roarbench.stats import contrasts
from roarbench.stats.compute_board import Judge
from roarbench.stats.correctness_and_gain import Correctness
from roarbench.stats.intervals import estimate
from roarbench.stats.own_network_gain import (
    OwnNetworkGain,
    compute_own_network_gains,
    judge_beside_search,
    predict_replicated_gain,
)
from roarbench.stats.rank_intervals import Pairs
from roarbench.stats.verdicts import decide_verdicts


def compute_own_network_gain(kept: np.ndarray, order: Order) -> OwnNetworkGain:
    return compute_own_network_gains({"row": kept}, order)["row"]


def draw_answers(networks: int, images: int = 60, levels: int = 2, own: float = 0.2) -> np.ndarray:
    """Draw answers of networks, each of which loses the share `own` more under its own map."""
    chance = np.random.default_rng(networks)
    kept = chance.random((networks, networks, levels, images)) < 0.6
    for number in range(networks):
        kept[number, number] &= chance.random((levels, images)) >= own
    return kept


def compute_gain_by_loops(kept: np.ndarray) -> float:
    """Add up the definition, one answer at a time."""
    maps, _, levels, images = kept.shape
    numbers = [
        ((int(kept[i, j, t, x]) + int(kept[j, i, t, x])) - (int(kept[i, i, t, x]) + int(kept[j, j, t, x]))) / 2
        for i, j in combinations(range(maps), 2)
        for t in range(levels)
        for x in range(images)
    ]
    return 100 * sum(numbers) / len(numbers)


def test_own_network_gain_matches_manual_computation_for_one_image() -> None:
    kept = np.ones((3, 3, 1, 1), dtype=bool)
    kept[0, 0] = False  # map 0 misleads network 0 alone: +50 in both of its pairs, 0 in the third
    found = compute_own_network_gain(kept, Order.MORF)
    assert isclose(found.gain.value, 100 / 3)
    assert isclose(compute_own_network_gain(kept, Order.LERF).gain.value, -100 / 3)


@pytest.mark.parametrize("networks", [3, 5])
def test_own_network_gain_matches_loops_over_definition(networks: int) -> None:
    kept = draw_answers(networks)
    found = compute_own_network_gain(kept, Order.MORF)
    assert isclose(found.gain.value, compute_gain_by_loops(kept), abs_tol=1e-9)
    for level, sample in enumerate(found.levels):
        assert isclose(sample.value, compute_gain_by_loops(kept[:, :, level : level + 1]), abs_tol=1e-9)


@pytest.mark.parametrize(("protocol", "sign"), [(OWN_NETWORK, 1), (OWN_NETWORK_LERF, -1)])
def test_board_has_gain_of_each_level(protocol: Protocol, sign: int) -> None:
    kept = {name: draw_answers(3, own=own) for name, own in {"row": 0.5, "other": 0.1, "fixed": 0.3}.items()}
    scores = Correctness(tuple(kept), (0.05, 0.5), {})
    board = Judge.from_kept(scores, protocol, kept, frozenset({"fixed"}), {}).make_board()
    for row in board.rows:
        own = np.array([kept[row.estimator][number, number] for number in range(3)])
        assert [share.value for share in row.accuracies] == pytest.approx(own.mean((0, 2)).tolist())
        gains = [gain.in_points for gain in board.list_gains_by_level(row)]
        if row.estimator == "fixed":
            assert gains == [(0.0, None, None)] * 2
            continue
        expected = [sign * compute_gain_by_loops(kept[row.estimator][:, :, [level]]) for level in range(2)]
        assert [gain.value for gain in gains] == pytest.approx(expected, abs=1e-9)
        assert all(gain.low < gain.value < gain.high for gain in gains)


def test_intervals_on_board_end_at_largest_possible_gain() -> None:
    few = {"row": draw_answers(3, own=0.5)[..., :3]}
    judge = Judge.from_kept(Correctness(("row",), (0.05, 0.5), {}), OWN_NETWORK, few, frozenset(), {})
    (row,) = judge.make_board().rows
    assert abs(estimate(judge.gains["row"]).high) > 100 == max(map(abs, row.gain))
    assert max(abs(end) for gain in row.differences for end in gain) == 1


def test_own_network_gain_is_0_for_maps_that_ignore_network() -> None:
    one_map = np.random.default_rng(0).random((1, 4, 3, 50)) < np.linspace(0.2, 0.9, 4)[:, None, None]
    found = compute_own_network_gain(np.repeat(one_map, 4, axis=0), Order.MORF)
    assert found.gain.value == 0 == found.gain.spread.totals[0]


def test_own_network_gain_cancels_harmful_maps_and_fragile_networks() -> None:
    kept = draw_answers(4, images=2000, own=0)
    harmful, fragile = kept.copy(), kept.copy()
    harmful[1] = False  # map 1 misleads all networks
    fragile[:, 2] = False  # network 2 always fails
    for changed in (harmful, fragile):
        assert abs(compute_own_network_gain(changed, Order.MORF).gain.value) < 3


def test_network_variance_matches_jackknife() -> None:
    kept = np.repeat(draw_answers(5, images=1, levels=1), 50, axis=3)  # equal images: networks alone vary
    whole = compute_own_network_gain(kept, Order.MORF)
    rest = [[j for j in range(5) if j != i] for i in range(5)]
    without = np.array([compute_gain_by_loops(kept[np.ix_(some, some)]) for some in rest])
    jackknife = np.sqrt(4 / 5 * ((without - compute_gain_by_loops(kept)) ** 2).sum())
    half = estimate(whole.gain).high - whole.gain.value
    assert isclose(half, 2.7764451 * jackknife, rel_tol=1e-6)  # Student's t with 4 degrees of freedom


def test_image_variance_matches_standard_error() -> None:
    kept = np.ones((3, 3, 1, 400), dtype=bool)
    kept[[0, 1, 2], [0, 1, 2], :, ::2] = False  # every pair says +100 on half of the images and 0 on the others
    found = compute_own_network_gain(kept, Order.MORF)
    # the networks have equal means; one prediction changes a network's deviation by 100 / 400 points
    assert found.gain.spread.variances[0] == pytest.approx((50**2 / 399, 0.25**2 / 12 / 3, 0), rel=1e-9)


def test_differences_of_rows_are_paired_by_images_and_networks() -> None:
    """The difference of two rows has the variance of the differences of images and of networks without one of them."""
    rows = {"one": draw_answers(4, own=0.2), "two": draw_answers(4, own=0.4)}
    rows["two"][:, :, :, :30] = rows["one"][:, :, :, :30]
    gains = compute_own_network_gains(rows, Order.MORF)
    difference = gains["one"].gain.subtract(gains["two"].gain)
    apart, jackknife, noise = measure_by_loops(*rows.values())
    assert isclose(difference.value, apart.mean(), abs_tol=1e-9)
    images, networks, _ = difference.spread.variances[0]
    assert 0 < noise < apart.var(ddof=1) / 60
    assert isclose(images, apart.var(ddof=1) / 60 - noise, rel_tol=1e-9)
    assert isclose(networks, jackknife, rel_tol=1e-9)


def measure_by_loops(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return the difference of two rows' gains by image, its jackknife variance, and the noise of images in this."""
    images = range(one.shape[3])
    rest = [[j for j in range(len(one)) if j != i] for i in range(len(one))]
    apart, *without = (
        np.array([compute_gain_by_loops(a[..., [x]]) - compute_gain_by_loops(b[..., [x]]) for x in images])
        for a, b in [(one, other), *((one[np.ix_(some, some)], other[np.ix_(some, some)]) for some in rest)]
    )
    factor, table = (len(one) - 1) / len(one), np.array(without)
    residuals = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    noise = factor * (residuals**2).sum() / (len(images) - 1) / len(images)
    return apart, factor * ((table.mean(1) - apart.mean()) ** 2).sum(), noise


@pytest.mark.parametrize(("networks", "most"), [(3, 2.2), (5, 1.6)])
def test_noise_of_single_images_is_not_added_to_that_between_networks(networks: int, most: float) -> None:
    """Every answer is drawn alone, so gains vary with images alone.

    Noise of pairs counts four times in the jackknife of three networks, and 2.7 times in that of five; all noise would
    count once more if that among images were added.
    """
    chance = np.random.default_rng(networks)
    rows = {str(row): chance.random((networks, networks, 1, 100)) < 0.7 for row in range(300)}
    gains = [own.gain for own in compute_own_network_gains(rows, Order.MORF).values()]
    true_variance = np.var([gain.value for gain in gains], ddof=1)
    assert 1.0 < contrasts.measure_spreads(gains).totals.mean() / true_variance < most


def test_covariance_of_images_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gains, ranks with pooled variances and differences of a table share one covariance."""
    rows = {str(number): draw_answers(3, own=number / 5) for number in range(4)}
    gains = [own.gain for own in compute_own_network_gains(rows, Order.MORF).values()]
    computed = Mock(wraps=contrasts.compute_second_moments)
    monkeypatch.setattr(contrasts, "compute_second_moments", computed)
    pairs = Pairs.from_contrasts(gains)
    assert pairs.pooled is not pairs.spread and estimate(gains[0]) != estimate(gains[0].subtract(gains[1]))
    assert computed.call_count == 1


def test_equal_sums_give_equal_gains_to_the_last_bit() -> None:
    """Three levels of thirds: the same whole number of answers, in another order of levels."""
    kept = draw_answers(3, images=7, levels=3)
    one, other = (compute_own_network_gain(each, Order.MORF).gain.value for each in (kept, kept[:, :, ::-1]))
    assert one == other


def test_permutation_p_value_counts_assignments() -> None:
    strong, weak = draw_answers(4, own=0.5), draw_answers(4, own=0.01)
    for kept, least in ((strong, 1), (~strong, 1), (weak, 3), (~weak, 3)):  # of 24; both sides count
        share = kept.mean((2, 3))
        sums = np.array([sum(share[m, n] for n, m in enumerate(maps)) for maps in permutations(range(4))])
        expected = np.mean(np.abs(sums - share.sum() / 4) >= abs(np.trace(share) - share.sum() / 4) - 1e-9)
        assert compute_own_network_gain(kept, Order.MORF).permutation == expected >= least / 24
    assert expected < 1 and compute_own_network_gain(strong, Order.MORF).permutation == 1 / 24
    assert compute_own_network_gain(strong[:3, :3], Order.MORF).permutation is None


def test_permutation_test_samples_assignments_of_many_networks() -> None:
    found = compute_own_network_gain(draw_answers(9, images=20, own=0.6), Order.MORF)
    assert found.permutation is not None
    assert 0 < found.permutation < 0.001


@pytest.mark.parametrize("shape", [(2, 2, 1, 5), (3, 2, 1, 5), (3, 3, 1, 0), (3, 3, 5)])
def test_own_network_gain_rejects_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="maps = networks >= 3"):
        compute_own_network_gain(np.ones(shape, dtype=bool), Order.MORF)


def test_own_network_verdict_names_side_of_0() -> None:
    kept = draw_answers(5, images=300, own=0.4)
    above, below = (compute_own_network_gain(kept, order).gain for order in (Order.MORF, Order.LERF))
    unclear = compute_own_network_gain(draw_answers(5, images=300, own=0), Order.MORF).gain
    found = decide_verdicts({"a": above, "b": below, "c": unclear})
    assert [judge_beside_search(verdict) for verdict in found.values()] == [
        "above 0",
        "opposes it",
        "not shown",
    ]


def test_prediction_interval_covers_gain_of_replication() -> None:
    """Networks lose different shares under their own maps; an interval of the gain itself is too short."""
    chance, inside = np.random.default_rng(3), []
    for _ in range(200):
        one, other = (draw_varied_answers(chance, 3) for _ in range(2))
        gain = compute_own_network_gain(one, Order.MORF).gain
        again = compute_own_network_gain(other, Order.MORF).gain.value
        ranges = [estimate(each) for each in (gain, predict_replicated_gain(gain))]
        inside.append([each.low <= again <= each.high for each in ranges])
    alone, predicted = np.mean(inside, 0)
    assert alone < 0.91
    assert 0.93 <= predicted < 0.99


def draw_varied_answers(chance: np.random.Generator, networks: int) -> np.ndarray:
    """Draw answers of networks that lose different shares under their own maps, on easy and hard images."""
    kept = chance.random((networks, networks, 2, 60)) < chance.uniform(0.3, 1, 60)
    own = np.arange(networks)
    kept[own, own] &= chance.random((networks, 2, 60)) >= chance.uniform(0, 0.8, networks)[:, None, None]
    return kept
