"""Training: a slow derivation of its steps, the order of operations, chance, and what goes wrong."""

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from roarbench import train
from roarbench.errors import Diverged
from roarbench.models import build
from roarbench.recipes import Augmentation, Decay, Precision, Recipe, learning_rate
from roarbench.train import Normalisation, batches, decay_groups, fit, normalise, predict

NORM = Normalisation((120.0, 110.0, 100.0), (60.0, 50.0, 40.0))
RECIPE = Recipe("test", 1, 4, 8, 0.1, 1, Decay.LINEAR, Augmentation.SHIFT_FLIP, Precision.FLOAT32)


class Held:
    """Inputs held in memory."""

    def __init__(self, images: Tensor) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, index: Tensor) -> Tensor:
        return self.images[index]


class Linear(nn.Module):
    """Logits that are a linear function of the pixels; remembers what it was given."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes)
        nn.init.normal_(self.linear.weight, generator=seeded(9))
        nn.init.zeros_(self.linear.bias)
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach().clone())
        out: Tensor = self.linear(x.flatten(1))
        return out


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(n: int, size: int = 16) -> tuple[Held, Tensor]:
    """Four classes: which quadrant is bright."""
    images = 100 * torch.rand(n, 3, size, size, generator=seeded(1))
    labels = torch.randint(0, 4, (n,), generator=seeded(2))
    half = size // 2
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = divmod(label, 2)
        image[:, row * half : (row + 1) * half, column * half : (column + 1) * half] += 100
    return Held(images), labels


def trained(seed: int, recipe: Recipe = RECIPE) -> dict[str, Tensor]:
    inputs, labels = pictures(40)
    model = build("resnet-planted", 4, 3, 16, seeded(0))
    fit(model, inputs, labels, NORM, recipe, seed)
    return model.state_dict()


def slow_fit(weight: np.ndarray, images: np.ndarray, labels: np.ndarray, recipe: Recipe, seed: int) -> np.ndarray:
    """Softmax regression by Nesterov's method in float64, one image at a time, bias included as the last column."""
    generator, classes, n = seeded(seed), len(weight), len(images)
    order = np.concatenate([torch.randperm(n, generator=generator).numpy() for _ in range(20)])
    velocity = np.zeros_like(weight)
    for step in range(round(recipe.epochs * n / recipe.batch)):
        gradient = np.zeros_like(weight)
        for i in order[step * recipe.batch : (step + 1) * recipe.batch]:
            scaled = [(c - m) / s for c, m, s in zip(images[i], NORM.mean, NORM.std, strict=True)]
            x = np.append(np.concatenate([channel.ravel() for channel in scaled]), 1.0)
            odds = np.exp(weight @ x - (weight @ x).max())
            target = np.full(classes, recipe.smoothing / classes)
            target[labels[i]] += 1 - recipe.smoothing
            gradient += np.outer(odds / odds.sum() - target, x) / recipe.batch
        gradient[:, :-1] += recipe.weight_decay * weight[:, :-1]  # not on the bias
        velocity = recipe.momentum * velocity + gradient
        weight = weight - learning_rate(recipe, step, n / recipe.batch) * (gradient + recipe.momentum * velocity)
    return weight


def test_fit_slowly() -> None:
    inputs, labels = pictures(20, size=2)
    recipe = replace(RECIPE, epochs=3, batch=6, augmentation=Augmentation.NONE, weight_decay=0.1, smoothing=0.2)
    model = Linear(12, 4)
    start = np.column_stack([model.linear.weight.detach().double().numpy(), np.zeros(4)])
    fit(model, inputs, labels, NORM, recipe, seed=3)
    expected = slow_fit(start, inputs.images.double().numpy(), labels.numpy(), recipe, seed=3)
    found = np.column_stack([model.linear.weight.detach().numpy(), model.linear.bias.detach().numpy()])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)  # ten steps in float32 on weights of size 1


def test_images_are_degraded_then_flipped_then_normalised() -> None:
    inputs, labels = pictures(8, size=4)
    model = Linear(48, 4)
    fit(model, inputs, labels, NORM, replace(RECIPE, epochs=1, augmentation=Augmentation.FLIP), seed=5)
    generator = seeded(5)
    index = torch.randperm(8, generator=generator)
    heads = torch.rand(8, generator=generator) < 0.5
    for got, i, mirrored in zip(model.seen[0], index.tolist(), heads.tolist(), strict=True):
        image = inputs.images[i].numpy()
        image = image[:, :, ::-1] if mirrored else image
        expected = np.stack([(image[c] - NORM.mean[c]) / NORM.std[c] for c in range(3)])
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6, atol=1e-6)  # float32


def test_nothing_follows_degrade_at_test_time_but_normalise() -> None:
    inputs, _ = pictures(5, size=4)
    model = Linear(48, 4)
    predict(model, inputs, NORM, batch=5)
    torch.testing.assert_close(model.seen[0], normalise(inputs.images, NORM), rtol=0, atol=0)


def test_normalise_by_hand() -> None:
    images = torch.tensor([180.0, 60.0, 100.0]).reshape(1, 3, 1, 1)
    torch.testing.assert_close(normalise(images, NORM).flatten(), torch.tensor([1.0, -1.0, 0.0]))


def test_batches_are_full_and_every_pass_uses_each_image_once() -> None:
    drawn = torch.cat(list(batches(10, batch=4, steps=10, generator=seeded(0))))
    assert drawn.shape == (40,)
    for start in range(0, 40, 10):
        assert sorted(drawn[start : start + 10].tolist()) == list(range(10))
    assert len({tuple(part.tolist()) for part in drawn.split(10)}) == 4  # shuffled anew


def test_a_batch_may_be_larger_than_the_set() -> None:
    index = next(batches(3, batch=8, steps=1, generator=seeded(0)))
    assert torch.bincount(index).sum() == 8
    assert torch.bincount(index).min() >= 2


def test_batches_do_not_depend_on_how_many_are_taken() -> None:
    few = list(batches(7, 3, 4, seeded(1)))
    many = list(islice(batches(7, 3, 100, seeded(1)), 4))
    torch.testing.assert_close(few, many, rtol=0, atol=0)


@pytest.mark.parametrize("precision", Precision)
def test_a_seed_fixes_every_bit(precision: Precision) -> None:
    recipe = replace(RECIPE, epochs=2, precision=precision)
    before = torch.get_rng_state()
    first = trained(7, recipe)
    torch.testing.assert_close(torch.get_rng_state(), before, rtol=0, atol=0)
    torch.rand(1)  # the global generator has no say
    torch.testing.assert_close(trained(7, recipe), first, rtol=0, atol=0)
    other = trained(8, recipe)
    assert all(not torch.equal(other[key], first[key]) for key in first if "weight" in key)


def test_a_separable_problem_is_learnt() -> None:
    inputs, labels = pictures(64)
    model = build("resnet-planted", 4, 3, 16, seeded(0))
    fit(model, inputs, labels, NORM, replace(RECIPE, epochs=12, augmentation=Augmentation.NONE), seed=0)
    assert (predict(model, inputs, NORM).argmax(1) == labels).float().mean() > 0.95


def test_a_training_that_diverges_says_so_early() -> None:
    inputs, labels = pictures(40)
    model = build("resnet-planted", 4, 3, 16, seeded(0))
    with pytest.raises(Diverged, match=r"loss (nan|inf) at step [1-9]\d? of 100, expected a finite number"):
        fit(model, inputs, labels, NORM, replace(RECIPE, epochs=20, peak=1e30), seed=0)


def test_input_that_is_no_number_diverges_at_once() -> None:
    inputs, labels = pictures(8)
    with pytest.raises(Diverged, match="loss nan at step 0 of 4"):
        fit(Linear(768, 4), Held(inputs.images * math.nan), labels, NORM, RECIPE, seed=0)


def test_weight_decay_is_on_matrices_and_filters_only() -> None:
    model = build("resnet8", 10, 3, 32, seeded(0))
    decayed, free = decay_groups(model, 1e-4)
    assert (decayed["weight_decay"], free["weight_decay"]) == (1e-4, 0.0)
    matrices = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert [id(p) for p in decayed["params"]] == [id(p) for p in matrices]
    assert len(decayed["params"]) + len(free["params"]) == len(list(model.parameters()))
    assert all(p.ndim == 1 for p in free["params"])


def test_arguments_are_not_changed() -> None:
    inputs, labels = pictures(16)
    images, classes = inputs.images.clone(), labels.clone()
    fit(build("resnet-planted", 4, 3, 16, seeded(0)), inputs, labels, NORM, replace(RECIPE, epochs=1), seed=0)
    torch.testing.assert_close(inputs.images, images, rtol=0, atol=0)
    torch.testing.assert_close(labels, classes, rtol=0, atol=0)


def test_predict_does_not_depend_on_what_fills_the_last_batch() -> None:
    inputs, _ = pictures(11)
    model = build("resnet-planted", 4, 3, 16, seeded(0))
    logits = predict(model, inputs, NORM, batch=4)
    assert (logits.shape, logits.dtype, logits.requires_grad) == ((11, 4), torch.float32, False)
    assert not model.training
    for n in (1, 4, 9):
        torch.testing.assert_close(predict(model, Held(inputs.images[:n]), NORM, batch=4), logits[:n], rtol=0, atol=0)
    # another batch size may round differently: float32 sums of a few hundred terms
    torch.testing.assert_close(predict(model, inputs, NORM, batch=11), logits, rtol=1e-4, atol=1e-6)


def test_float32_never_asks_for_bf16() -> None:
    assert not train.uses_bf16(Precision.FLOAT32, torch.device("cpu"))


def test_removed_maps_take_the_same_way() -> None:
    t = 0.5
    labels = torch.arange(40) % 2
    maps = (torch.arange(16).expand(40, 1, 16, 16) < 8).float()
    maps[labels == 1] = 1 - maps[labels == 1]  # which half is removed tells the class
    norm = Normalisation((t,), (math.sqrt(t * (1 - t)),))
    model = build("resnet-planted", 2, 1, 16, seeded(0))
    fit(model, Held(maps), labels, norm, replace(RECIPE, augmentation=Augmentation.NONE), seed=0)
    assert (predict(model, Held(maps), norm).argmax(1) == labels).all()
