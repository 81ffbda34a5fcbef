"""Random draws are keyed by image: equal in every batch, different per image, copy, purpose and seed."""

from types import SimpleNamespace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from roarbench.estimators.estimator import SEED
from roarbench.estimators.random_draws import (
    draw_normal_noise,
    draw_other_targets,
    draw_random_importance,
    make_noisy_copies,
    pair_images,
)

SHAPE = (3, 16, 16)


def draw_images(n):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(0))


def test_draws_equal_philox_generator_keyed_by_image():
    x, ids = draw_images(2), torch.tensor([2**40, 5])
    found, drawn = make_noisy_copies(x, ids, 3, seed=9, noise=0.15), draw_random_importance(x, ids, seed=9)
    for row, image in enumerate(ids.tolist()):
        generator = np.random.Generator(np.random.Philox(key=[9, 1], counter=[0, 0, 0, image]))
        np.testing.assert_array_equal(drawn[row], generator.random(SHAPE, dtype=np.float32))
        generator = np.random.Generator(np.random.Philox(key=[9, 0], counter=[0, 0, 3, image]))
        z = generator.standard_normal((16, 16, 3), dtype=np.float32).transpose(2, 0, 1)
        expected = x[row].numpy() + np.float32(0.15) * (x[row].max() - x[row].min()).numpy() * z
        np.testing.assert_allclose(found[row].numpy(), expected, rtol=1e-6, atol=1e-6)  # float32
    x, ids = draw_images(40), torch.arange(40) * 7
    asked = SimpleNamespace(shape=x.shape, dtype=x.dtype, device=x.device, is_cuda=True)
    on_gpu, on_cpu = (draw_normal_noise(images, ids, 3, seed=9) for images in (asked, x))
    torch.testing.assert_close(on_gpu, on_cpu, rtol=0, atol=0)


@given(classes=st.integers(2, 12), first=st.integers(0, 2**40), seed=st.integers(0, 99))
def test_draw_other_targets_returns_other_classes(classes, first, seed):
    ids = torch.arange(first, first + 30)
    targets = ids % classes
    found = draw_other_targets(targets, ids, classes, seed)
    assert found.dtype == torch.int64
    assert ((found != targets) & (found >= 0) & (found < classes)).all()
    alone = [draw_other_targets(targets[row, None], ids[row, None], classes, seed) for row in range(30)]
    torch.testing.assert_close(found, torch.cat(alone), rtol=0, atol=0)  # independent of the batch


def test_pair_images_returns_permutation_without_fixed_points():
    for others in (pair_images(2, 0, SEED), pair_images(400, 0, SEED)):
        assert sorted(others.tolist()) == list(range(len(others)))
        assert (others != np.arange(len(others))).all()
    assert (pair_images(400, 0, SEED) == others).all()
    for first, seed in ((2**32, SEED), (0, SEED + 1)):
        assert (pair_images(400, first, seed) != others).mean() > 0.9
