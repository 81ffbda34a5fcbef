"""Chance is keyed by the image: the same in every batch, different for each image, copy, purpose and seed."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from roarbench.errors import CallerError
from roarbench.estimators import SEED
from roarbench.estimators.noise import noise_draws, noisy_copies, other_targets, random_importance
from roarbench.estimators.pairing import other_images, other_images_of_class

SHAPE = (3, 16, 16)


def images(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(0), dtype=dtype)


def test_noise_is_philox_under_the_images_key():
    x = images(2)
    found = noisy_copies(x, torch.tensor([11, 5]), 3, seed=9)
    for row, image in enumerate((11, 5)):
        generator = np.random.Generator(np.random.Philox(key=[9, 0], counter=[0, 0, 3, image]))
        z = generator.standard_normal((16, 16, 3), dtype=np.float32).transpose(2, 0, 1)
        expected = x[row].numpy() + np.float32(0.15) * (x[row].max() - x[row].min()).numpy() * z
        np.testing.assert_allclose(found[row].numpy(), expected, rtol=1e-6, atol=1e-6)  # float32


def test_noise_has_the_moments_of_its_normal():
    x = images(200, torch.float64)
    spread = (x.amax((1, 2, 3)) - x.amin((1, 2, 3)))[:, None, None, None]
    z = ((noisy_copies(x, torch.arange(200), 0, seed=0) - x) / (0.15 * spread)).flatten()
    n = len(z)
    # five standard errors of the mean, the variance and the fourth moment of a standard normal
    assert abs(z.mean()) < 5 / n**0.5
    assert abs((z**2).mean() - 1) < 5 * (2 / n) ** 0.5
    assert abs((z**4).mean() - 3) < 5 * (96 / n) ** 0.5


def test_noise_scales_with_the_image_and_a_flat_image_gets_none():
    x = images(1, torch.float64)
    ids = torch.tensor([4])
    noise = noisy_copies(x, ids, 0, seed=0) - x
    torch.testing.assert_close(noisy_copies(3 * x + 1, ids, 0, seed=0) - (3 * x + 1), 3 * noise, rtol=1e-9, atol=1e-12)
    flat = torch.full((1, *SHAPE), 0.7)
    torch.testing.assert_close(noisy_copies(flat, ids, 0, seed=0), flat, rtol=0, atol=0)


@given(order=st.permutations(range(6)), cut=st.integers(1, 5))
def test_chance_does_not_depend_on_batch_or_order(order, cut):
    x, ids, targets = images(6), torch.arange(6) * 1000, torch.arange(6) % 4
    rows = torch.tensor(order)
    for draw in (
        lambda r: noisy_copies(x[r], ids[r], 2, seed=1),
        lambda r: random_importance(x[r], ids[r], seed=1),
        lambda r: other_targets(targets[r], ids[r], 4, seed=1),
    ):
        parts = torch.cat([draw(rows[:cut]), draw(rows[cut:])])
        torch.testing.assert_close(parts, draw(slice(None))[rows], rtol=0, atol=0)


def test_every_key_has_its_own_chance():
    x = torch.zeros(1, *SHAPE)
    x[0, 0, 0, 0] = 1  # a range of 1
    draws = [
        noisy_copies(x, torch.tensor([image]), j, seed) for image in (0, 1, 2**40) for j in (0, 1) for seed in (0, 1)
    ]
    draws += [random_importance(x, torch.tensor([image]), seed) for image in (0, 1) for seed in (0, 1)]
    for i, first in enumerate(draws):
        for second in draws[:i]:
            # correlation of 768 independent numbers: five standard errors
            assert (
                abs(torch.corrcoef(torch.stack([(first - x).flatten(), (second - x).flatten()]))[0, 1]) < 5 / 768**0.5
            )


@given(classes=st.integers(2, 12), first=st.integers(0, 2**40), seed=st.integers(0, 99))
def test_other_targets_are_other_classes(classes, first, seed):
    ids = torch.arange(first, first + 30)
    targets = ids % classes
    found = other_targets(targets, ids, classes, seed)
    assert found.dtype == torch.int64
    assert ((found != targets) & (found >= 0) & (found < classes)).all()


def test_other_targets_are_equally_likely():
    found = other_targets(torch.full((3000,), 2), torch.arange(3000), 5, seed=0)
    counts = Counter(found.tolist())
    assert set(counts) == {0, 1, 3, 4}
    # five standard deviations of a binomial count of 3000 draws with p = 1/4
    assert all(abs(count - 750) < 5 * (3000 * 0.25 * 0.75) ** 0.5 for count in counts.values())


def test_every_image_is_another_ones_exactly_once():
    for n in (2, 3, 1000):
        others = other_images(n, 0, SEED)
        assert sorted(others.tolist()) == list(range(n))
        assert (others != np.arange(n)).all()
    assert (other_images(1000, 0, SEED) == other_images(1000, 0, SEED)).all()
    assert (other_images(1000, 0, SEED) != other_images(1000, 2**32, SEED)).mean() > 0.9


def test_another_image_of_the_class_is_never_the_image_itself_and_each_is_one_once():
    labels = np.random.default_rng(0).integers(0, 5, 400)
    others = other_images_of_class(labels, 0, SEED)
    assert sorted(others) == list(range(400))
    assert (others != np.arange(400)).all()
    assert (labels[others] == labels).all()
    assert (others == other_images_of_class(labels, 0, SEED)).all()
    assert (others != other_images_of_class(labels, 0, SEED + 1)).mean() > 0.9
    assert (others != other_images_of_class(labels, 2**32, SEED)).mean() > 0.9


def test_an_image_alone_in_its_class_is_handed_none():
    assert (other_images_of_class(np.array([3, 0, 3, 0]), 0, SEED) == [2, 3, 0, 1]).all()
    with pytest.raises(CallerError, match="class 3 has one image"):
        other_images_of_class(np.array([3, 0, 0]), 0, SEED)


def test_draws_for_a_gpu_are_made_by_several_threads_and_are_the_same():
    x, ids = images(40), torch.arange(40) * 7
    asked = SimpleNamespace(shape=x.shape, dtype=x.dtype, device=x.device, is_cuda=True)
    torch.testing.assert_close(noise_draws(asked, ids, 3, seed=9), noise_draws(x, ids, 3, seed=9), rtol=0, atol=0)
