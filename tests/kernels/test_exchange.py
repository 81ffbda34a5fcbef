from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from roarbench.kernels.bit_planes import Layout, encode
from roarbench.kernels.degrade import degrade
from roarbench.kernels.exchange import ExchangedImages
from roarbench.kernels.ranking import removed_count, sort_keys, tie_order
from roarbench.kernels.streaming import Cut
from roarbench.terms import Order, Unit

N, SHAPE = 12, (3, 4, 5)
LEVELS = (0.3, 0.5)  # of 20 pixels so many are removed that no two images lose the same ones
FILL = torch.tensor([120.25, 1 / 3, 255.0])


def ranked(unit: Unit, seed: int) -> tuple[np.ndarray, np.ndarray, Layout]:
    """Importances (n, d), their bit-planes and the layout."""
    layout = Layout(SHAPE, unit, LEVELS)
    importance = np.random.default_rng(seed).normal(size=(N, layout.features)).astype(np.float32)
    return importance, encode(sort_keys(importance, tie_order(np.arange(N), layout.features)), layout), layout


def removed_by_sorting(importance: np.ndarray, t: float, order: Order) -> np.ndarray:
    """True where one image loses a feature, by its whole order."""
    ranks = np.argsort(importance if order is Order.LERF else -importance)
    removed = np.zeros(len(importance), bool)
    removed[ranks[: removed_count(t, len(importance))]] = True
    return removed


def inputs(unit: Unit = Unit.SCALAR, seed: int = 0, levels: tuple[float, ...] = LEVELS) -> ExchangedImages:
    pixels = torch.from_numpy(np.random.default_rng(9).integers(0, 256, (N, *SHAPE), dtype=np.uint8))
    _, planes, layout = ranked(unit, 1)
    cuts = tuple(Cut(planes, layout, t, Order.MORF) for t in levels)
    return ExchangedImages(pixels, cuts, FILL, unit, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("unit", (Unit.SCALAR, Unit.PIXEL))  # squares of these few pixels are alike by chance
@pytest.mark.parametrize("order", Order)
def test_each_image_carries_what_another_one_loses(unit: Unit, order: Order) -> None:
    """The map that an image carries is found among those of all other images by comparing every one of them."""
    made = [ranked(unit, seed) for seed in (1, 2)]
    pixels = inputs().pixels
    cuts = tuple(Cut(planes, layout, t, order) for _, planes, layout in made for t in LEVELS)
    exchanged = ExchangedImages(pixels, cuts, FILL, unit, torch.Generator().manual_seed(3))
    channels = SHAPE[0] if unit is Unit.SCALAR else 1
    lent = list(product(range(2), LEVELS, range(N)))
    gone = np.stack([removed_by_sorting(made[kind][0][other], t, order) for kind, t, other in lent])
    removed = torch.from_numpy(gone.reshape(-1, channels, *SHAPE[1:]))
    seen, batches = set(), [exchanged.batch(torch.arange(N)) for _ in range(40)]
    for image in range(N):
        possible = degrade(pixels[image].expand(len(lent), *SHAPE), removed, FILL)
        for batch in batches:
            seen.add((image, *lent[int((possible == batch[image]).flatten(1).all(1).nonzero())]))
    assert all(image != other for image, _, _, other in seen)
    assert {(kind, t) for _, kind, t, _ in seen} == {(kind, t) for kind in range(2) for t in LEVELS}
    assert {other for _, _, _, other in seen} == set(range(N))


def test_all_others_and_all_cuts_have_equal_chances() -> None:
    exchanged = inputs()
    others, cuts = zip(*(exchanged._draw(torch.zeros(1000, dtype=torch.int64)) for _ in range(20)), strict=True)
    counts = np.bincount(np.concatenate(others), minlength=N)
    assert counts[0] == 0
    expected = 20_000 / (N - 1)
    assert np.abs(counts[1:] - expected).max() < 5 * np.sqrt(expected)
    assert abs(np.mean(np.concatenate(cuts)) - 0.5) < 0.02


@pytest.mark.parametrize("lenders", (5, 40))
def test_maps_may_be_lent_by_images_that_are_not_trained_on(lenders: int) -> None:
    planes = np.repeat(ranked(Unit.SCALAR, 1)[1], 4, axis=0)[:lenders]
    exchanged = replace(inputs(), cuts=(inputs().cuts[0]._replace(planes=planes),), lent=True)
    draws = [exchanged._draw(torch.zeros(1000, dtype=torch.int64))[0] for _ in range(20)]
    counts = np.bincount(np.concatenate(draws), minlength=lenders)
    assert len(counts) == lenders
    expected = 20_000 / lenders  # the first image is met by the map of the first lender, which is not its own
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)
    assert exchanged.batch(torch.arange(N)).shape == (N, *SHAPE)
