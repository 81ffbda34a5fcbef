"""Matched masks: derived feature by feature, by hand, and with an image's own map in the other's place."""

import numpy as np
import pytest
import torch

from roarbench.estimators.baselines import blurred
from roarbench.kernels.bit_planes import Layout, bin_codes, encode, removed_bits
from roarbench.kernels.fill import change_numbers
from roarbench.kernels.matching import matched, strata
from roarbench.kernels.ranking import removed_count, sort_keys, tie_order
from roarbench.terms import PAPER_LEVELS, Order, Unit

N, SHAPE = 4, (3, 8, 8)
LAYOUT = Layout(SHAPE, Unit.SCALAR, PAPER_LEVELS)
D = LAYOUT.features


def maps(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N, D)).astype(np.float32)


def encoded(importance: np.ndarray) -> np.ndarray:
    return encode(sort_keys(importance, tie_order(np.arange(N), D)), LAYOUT)


def removed(importance: np.ndarray, t: float, order: Order) -> np.ndarray:
    return np.unpackbits(removed_bits(encoded(importance), t, order, LAYOUT), axis=1, count=D).view(bool)


def numbers(seed: int, bound: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, bound, (N, D), dtype=np.uint8)


TIES = np.stack([np.random.default_rng(image).permutation(D) for image in range(N)])


def test_change_by_hand() -> None:
    images, fill = torch.tensor([[[[10, 250]], [[0, 100]]]], dtype=torch.uint8), torch.tensor([30.25, 99.75])
    wide = images.expand(1, 2, 5, 2)
    scalar, smooth = change_numbers(wide, fill[:, None, None], Unit.SCALAR)
    assert scalar.reshape(2, 5, 2)[:, 0].tolist() == [[20, 220], [100, 0]]
    (pixel, _) = change_numbers(wide, fill[:, None, None], Unit.PIXEL)
    assert pixel.reshape(5, 2)[0].tolist() == [60, 110]  # (20.25 + 99.75) / 2, (219.75 + 0.25) / 2
    expected = blurred((wide.float() - fill[:, None, None]).abs()).flatten(1).round()
    assert np.array_equal(smooth, expected.numpy().astype(np.uint8))
    assert len(change_numbers(torch.zeros(2, 30, 1, 1, dtype=torch.uint8), torch.zeros(30, 1, 1), Unit.SCALAR)) == 1


@pytest.mark.parametrize("bound", (3, 256))
def test_strata_are_quantile_bins_within_quantile_bins(bound: int) -> None:
    first, second = numbers(1, bound), numbers(2, bound)
    found = strata([first, second], 4)
    for image in range(N):
        outer = 4 * np.array([(first[image] < value).sum() for value in first[image]]) // D
        for feature in range(D):
            peers = outer == outer[feature]
            inner = 4 * (second[image, peers] < second[image, feature]).sum() // peers.sum()
            assert found[image, feature] == 4 * outer[feature] + inner


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("t", (0.1, 0.5, 0.9))
def test_each_stratum_loses_as_many_those_that_the_other_map_ranks_first(order: Order, t: float) -> None:
    """A slow derivation, feature by feature, from the bins of the other image's whole ranking."""
    own, other, found = removed(maps(1), t, order), maps(2), strata([numbers(3, 256), numbers(4, 256)], 3)
    made = matched(own, bin_codes(encoded(other), LAYOUT), found, order, TIES)
    bounds = sorted(
        {removed_count(level, D) for level in PAPER_LEVELS} | {D - removed_count(t, D) for t in PAPER_LEVELS}
    )
    for image in range(N):
        place = np.empty(D, int)
        place[np.argsort(-other[image])] = np.arange(D)
        bins = np.searchsorted(bounds, place, side="right") * (1 if order is Order.MORF else -1)
        for stratum in range(9):
            members = np.flatnonzero(found[image] == stratum)
            first = sorted(members, key=lambda feature: (bins[feature], TIES[image, feature]))[
                : own[image, members].sum()
            ]
            assert sorted(first) == np.flatnonzero(made[image] & (found[image] == stratum)).tolist()
