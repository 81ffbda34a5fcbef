"""Strata of matched masks, removal magnitudes, and the smoothness of masks."""

from itertools import combinations

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from roarbench.common.enums import PAPER_LEVELS, Order, Unit
from roarbench.compute.degraded_images import compute_removal_magnitudes
from roarbench.compute.masks import (
    assign_strata,
    compute_differing_mask_share,
    compute_mean_differing_mask_share,
    compute_removal_magnitudes_in_numpy,
    compute_smoothness_vs_random,
    make_matched_masks,
)
from roarbench.compute.ranking import Layout, count_removed, find_removed_bits, read_bin_codes
from roarbench.estimators.estimator import blur
from tests.helpers.trainings import encoded

N, SHAPE = 4, (3, 8, 8)
LAYOUT = Layout(SHAPE, Unit.SCALAR, PAPER_LEVELS)
D = LAYOUT.features


def draw_numbers(seed, bound):
    return np.random.default_rng(seed).integers(0, bound, (N, D), dtype=np.uint8)


def test_removal_magnitudes_match_hand_computed_values():
    wide = torch.tensor([[[[10, 250]], [[0, 100]]]], dtype=torch.uint8).expand(1, 2, 5, 2)
    fill = torch.tensor([30.25, 99.75])[:, None, None]
    scalar, smooth = compute_removal_magnitudes(wide, fill, Unit.SCALAR)
    assert scalar.reshape(2, 5, 2)[:, 0].tolist() == [[20, 220], [100, 0]]
    (pixel, _) = compute_removal_magnitudes(wide, fill, Unit.PIXEL)
    assert pixel.reshape(5, 2)[0].tolist() == [60, 110]  # (20.25 + 99.75) / 2, (219.75 + 0.25) / 2
    expected = blur((wide.float() - fill).abs()).flatten(1).round()
    assert np.array_equal(smooth, expected.numpy().astype(np.uint8))
    table = torch.zeros(2, 30, 1, 1, dtype=torch.uint8)
    assert len(compute_removal_magnitudes(table, torch.zeros(30, 1, 1), Unit.SCALAR)) == 1


@pytest.mark.parametrize("bound", (3, 256))
def test_assign_strata_returns_nested_quantile_bins(bound):
    first, second = draw_numbers(1, bound), draw_numbers(2, bound)
    found = assign_strata([first, second], 4)
    for image in range(N):
        outer = 4 * np.array([(first[image] < value).sum() for value in first[image]]) // D
        for feature in range(D):
            peers = outer == outer[feature]
            inner = 4 * (second[image, peers] < second[image, feature]).sum() // peers.sum()
            assert found[image, feature] == 4 * outer[feature] + inner


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("t", (0.1, 0.5, 0.9))
def test_other_image_mask_removes_as_many_features_per_stratum(order, t):
    """Within a stratum the mask removes the features that the other map ranks first; the reference sorts each one."""
    generator = np.random.default_rng(1)
    mine, other = generator.normal(size=(2, N, *SHAPE)).astype(np.float32)
    own = np.unpackbits(find_removed_bits(encoded(mine, LAYOUT), t, order, LAYOUT), axis=1, count=D).view(bool)
    found = assign_strata([draw_numbers(3, 256), draw_numbers(4, 256)], 3)
    ties = generator.permuted([range(D)] * N, axis=1)
    codes = read_bin_codes(encoded(other, LAYOUT), LAYOUT)
    made = make_matched_masks(own, codes, found, order, ties)
    many_bins = codes * np.uint16(300)  # more than a byte has room for
    assert_array_equal(make_matched_masks(own, many_bins, found, order, ties), made)
    for image in range(N):
        place = np.empty(D, int)
        place[np.argsort(-other[image].ravel())] = np.arange(D)
        bins = np.searchsorted(LAYOUT.bin_boundaries, place, side="right") * (1 if order is Order.MORF else -1)
        for stratum in range(9):
            members = np.flatnonzero(found[image] == stratum)
            ranked = members[np.lexsort((ties[image, members], bins[members]))]
            expected = sorted(ranked[: own[image, members].sum()])
            assert expected == np.flatnonzero(made[image] & (found[image] == stratum)).tolist()


@pytest.mark.parametrize(
    ("images", "shape", "unit", "expected"),
    [
        # of 3 x 3 features 4 are removed: chance has 12 pairs * 4/9 * 3/8 = 2, a square has 4 of them
        ([[[[1, 1, 0], [1, 1, 0], [0, 0, 0]]]], (1, 3, 3), Unit.SCALAR, 2),
        ([[[[1, 0, 1], [0, 0, 0], [1, 0, 1]]]], (1, 3, 3), Unit.SCALAR, 0),
        # a column and a row of 3: 12 pairs * 3/9 * 2/8 = 1
        ([[[[1, 0, 0], [1, 0, 0], [1, 0, 0]]], [[[0, 0, 0], [1, 1, 1], [0, 0, 0]]]], (1, 3, 3), Unit.SCALAR, 2),
        # the end of a row and the start of the next; the ends of a channel and of an image
        ([[[[0, 0, 1], [1, 0, 0]], [[0, 0, 0], [0, 0, 0]]]] * 2, (2, 2, 3), Unit.SCALAR, 0),
        ([[[[0, 0, 0], [0, 0, 1]], [[1, 0, 0], [0, 0, 1]]]] * 2, (2, 2, 3), Unit.SCALAR, 0),
        # 4 pairs * 2/4 * 1/3 by chance; pixels have no channels
        ([[[[1, 1], [0, 0]]]], (3, 2, 2), Unit.PIXEL, 1.5),
        ([[[[0, 1], [0, 0]]]], (1, 2, 2), Unit.SCALAR, None),
        ([[[[1]], [[1]]]], (2, 1, 1), Unit.SCALAR, None),
    ],
)
def test_smoothness_is_neighbour_pair_count_over_chance(images, shape, unit, expected):
    packed = np.packbits(np.array(images, bool).reshape(len(images), -1), axis=1)
    found = compute_smoothness_vs_random(packed, shape, unit)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-12))


@pytest.mark.parametrize(
    ("strata", "t"),
    [
        ([0, 1, 2, 3], 0.5),  # each feature alone: the matched mask is the own mask
        ([0, 0, 0, 0], 0.5),  # one stratum: 1 of 6 masks is equal
        ([0, 0, 1, 1], 0.5),  # own masks: 4 of 6 have one of each stratum, and are equal with probability 1/4
        ([0, 0, 1, 2, 2, 2], 0.5),
        ([5, 5, 5, 1, 1, 0, 0], 0.3),
        ([0, 0, 1, 1, 2], 0.1),  # removes 0 of 5
        ([0, 0, 1, 1, 2], 1.0),
    ],
)
def test_differing_mask_share_equals_enumeration(strata, t):
    """Every own mask, with every mask that has as many features in each stratum."""
    d, removed = len(strata), count_removed(t, len(strata))
    masks = [{*mask} for mask in combinations(range(d), removed)]

    def divide(mask):
        return sorted(strata[feature] for feature in mask)

    equal = [1 / sum(divide(other) == divide(mask) for other in masks) for mask in masks]
    expected = 1 - sum(equal) / len(masks)
    assert compute_differing_mask_share(np.array([strata, strata], np.uint8), t) == pytest.approx(expected, abs=1e-12)


def test_mean_differing_mask_share_agrees_with_masks_of_random_maps():
    """Ten columns, 2,000 rows: own and matched masks of independent maps, made by the product's own kernel."""
    rng, n, d = np.random.default_rng(0), 2000, 10
    strata = assign_strata([rng.integers(0, 256, (n, d)).astype(np.uint8)])
    shares = []
    for t in (0.1, 0.5):
        own, other, ties = (rng.permuted(np.tile(np.arange(d), (n, 1)), axis=1) for _ in range(3))
        mask = own < count_removed(t, d)
        matched = make_matched_masks(mask, other.astype(np.uint8), strata, Order.MORF, ties)
        shares.append((mask != matched).any(1).mean())
    found = compute_mean_differing_mask_share(strata, (0.1, 0.5))
    assert found == pytest.approx(np.mean(shares), abs=4 * 0.5 / np.sqrt(2 * 200))  # 200 rows are used


def test_magnitudes_of_table_have_no_blurred_copy():
    pixels = np.array([[[[7]], [[20]]]], np.uint8)
    (magnitude,) = compute_removal_magnitudes_in_numpy(pixels, np.float32([10, 10])[:, None, None], Unit.SCALAR)
    assert magnitude.tolist() == [[3, 10]]
