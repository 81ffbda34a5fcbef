"""Training: a slow derivation of its steps, the order of operations, chance, and what goes wrong."""

import copy
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from roarbench.devices import uses_bf16
from roarbench.errors import Diverged
from roarbench.kernels import held, scoring, train
from roarbench.kernels.augment import augment
from roarbench.kernels.degrade import DegradedImages, RedrawnImages
from roarbench.kernels.held import MOVING
from roarbench.kernels.inputs import Batches, Normalisation, normalise
from roarbench.kernels.scoring import predict, scored_at_once
from roarbench.kernels.train import decay_groups, fit
from roarbench.models.build import build
from roarbench.plan.recipe import Augmentation, Decay, Optimiser, Recipe, learning_rate
from roarbench.plan.recipes import find_recipe
from roarbench.terms import Precision, Unit
from tests.helpers.streamed import seeded

NORM = Normalisation((120.0, 110.0, 100.0), (60.0, 50.0, 40.0))
RECIPE = Recipe("test", 1, 4, 8, 0.1, 1, Decay.LINEAR, Augmentation.SHIFT_FLIP, Precision.FLOAT32)


class FixedImages:
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


def pictures(n: int, size: int = 16) -> tuple[FixedImages, Tensor]:
    """Four classes: which quadrant is bright."""
    images = 100 * torch.rand(n, 3, size, size, generator=seeded(1))
    labels = torch.randint(0, 4, (n,), generator=seeded(2))
    half = size // 2
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = divmod(label, 2)
        image[:, row * half : (row + 1) * half, column * half : (column + 1) * half] += 100
    return FixedImages(images), labels


def take(drawn: Batches, count: int) -> list[Tensor]:
    return [drawn.next() for _ in range(count)]


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


def test_normalise_by_hand() -> None:
    images = torch.tensor([180.0, 60.0, 100.0]).reshape(1, 3, 1, 1)
    torch.testing.assert_close(normalise(images, NORM).flatten(), torch.tensor([1.0, -1.0, 0.0]))
    assert images.flatten().tolist() == [180.0, 60.0, 100.0]  # not in place


def test_coming_batches_are_those_that_come_and_draw_nothing() -> None:
    generator = seeded(1)
    drawn = Batches(20, 3, generator)
    drawn.next()
    before = generator.get_state()
    coming = list(drawn.coming())
    torch.testing.assert_close(generator.get_state(), before, rtol=0, atol=0)
    assert len(coming) == 5  # 17 are left of the first pass
    torch.testing.assert_close(take(drawn, 5), coming, rtol=0, atol=0)
    assert list(drawn.coming()) == []


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


def test_a_training_that_diverges_says_so_early() -> None:
    inputs, labels = pictures(40)
    model = build("resnet-planted", 4, 3, 16, seeded(0))
    with pytest.raises(Diverged, match=r"loss (nan|inf) at step [1-9]\d? of 100, expected a finite number"):
        fit(model, inputs, labels, NORM, replace(RECIPE, epochs=20, peak=1e30), seed=0)


def test_weight_decay_is_on_matrices_and_filters_only() -> None:
    model = build("resnet8", 10, 3, 32, seeded(0))
    decayed, free = decay_groups(model, 1e-4)
    assert (decayed["weight_decay"], free["weight_decay"]) == (1e-4, 0.0)
    matrices = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert [id(p) for p in decayed["params"]] == [id(p) for p in matrices]
    assert len(decayed["params"]) + len(free["params"]) == len(list(model.parameters()))
    assert all(p.ndim == 1 for p in free["params"])


def test_small_images_are_scored_128_at_once_and_large_ones_32() -> None:
    """What is published was scored so; another batch may round to other answers."""
    assert [scored_at_once(size) for size in (28, 32, 64, 65, 128, 224)] == [128, 128, 128, 32, 32, 32]


def test_predict_does_not_depend_on_what_fills_the_last_batch() -> None:
    inputs, _ = pictures(11)
    model = build("resnet-planted", 4, 3, 16, seeded(0))
    logits = predict(model, inputs, NORM, batch=4)
    assert (logits.shape, logits.dtype, logits.requires_grad) == ((11, 4), torch.float32, False)
    assert not model.training
    for n in (1, 4, 9):
        torch.testing.assert_close(
            predict(model, FixedImages(inputs.images[:n]), NORM, batch=4), logits[:n], rtol=0, atol=0
        )
    # another batch size may round differently: float32 sums of a few hundred terms
    torch.testing.assert_close(predict(model, inputs, NORM, batch=11), logits, rtol=1e-4, atol=1e-6)


def test_reading_inputs_in_parts_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, _ = degraded_pictures()
    model = build("resnet-planted", 4, 3, 16, seeded(0))
    in_parts = predict(model, inputs, NORM, batch=128)
    read = [len(part) for part in torch.arange(128).split(scoring._READ)]
    assert len(read) > 1
    monkeypatch.setattr(scoring, "_READ", 128)
    torch.testing.assert_close(in_parts, predict(model, inputs, NORM, batch=128), rtol=0, atol=0)


@pytest.mark.parametrize("kind", sorted(MOVING))
@pytest.mark.parametrize("precision", Precision)
def test_images_drawn_anew_are_moved_as_augmented_bit_for_bit(kind: Augmentation, precision: Precision) -> None:
    fixed, labels = degraded_pictures()
    redrawn = [RedrawnImages(fixed.pixels, 0.5, fixed.fill, fixed.unit, seeded(0)) for _ in range(2)]
    recipe = replace(RECIPE, augmentation=kind, precision=precision)
    model = build("resnet-planted", 4, 3, 16, seeded(0))
    training = train._Training(model, redrawn[0], labels, NORM, recipe, seed=3)
    index, generator = torch.arange(9).flip(0), seeded(3)
    for _ in range(2):
        found = training._images(index)
        expected = normalise(augment(redrawn[1].batch(index), kind, generator), NORM)
        torch.testing.assert_close(found, expected.to(found.dtype), rtol=0, atol=0)
        assert found.is_contiguous(memory_format=torch.channels_last)


def test_what_is_drawn_anew_is_read_a_batch_at_a_time() -> None:
    """Its draws depend on how it is read."""
    fixed, _ = degraded_pictures()
    redrawn = [RedrawnImages(fixed.pixels, 0.5, fixed.fill, fixed.unit, seeded(0)) for _ in range(2)]
    model = build("resnet-planted", 4, 3, 16, seeded(0)).eval()
    found = predict(model, redrawn[0], NORM, batch=128)
    first = redrawn[1].batch(torch.arange(128))
    with torch.inference_mode():
        torch.testing.assert_close(found[:128], model(normalise(first, NORM)), rtol=0, atol=0)


def test_float32_never_asks_for_bf16() -> None:
    assert not uses_bf16(Precision.FLOAT32, torch.device("cpu"))


def plain_fit(model: nn.Module, inputs: FixedImages, labels: Tensor, recipe: Recipe, seed: int) -> None:
    """Training as a short loop, without parts, checkpoints or reading ahead."""
    generator, n = seeded(seed), len(inputs)
    optimiser = torch.optim.SGD(
        decay_groups(model, recipe.weight_decay), lr=0.0, momentum=recipe.momentum, nesterov=True, fused=True
    )
    model.to(memory_format=torch.channels_last).train()
    order = torch.empty(0, dtype=torch.int64)
    for step in range(round(recipe.epochs * n / recipe.batch)):
        while len(order) < recipe.batch:
            order = torch.cat([order, torch.randperm(n, generator=generator)])
        index, order = order[: recipe.batch], order[recipe.batch :]
        images = normalise(augment(inputs.batch(index), recipe.augmentation, generator), NORM)
        with torch.autocast("cpu", torch.bfloat16, enabled=uses_bf16(recipe.precision, torch.device("cpu"))):
            logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits.float(), labels[index], label_smoothing=recipe.smoothing)
        optimiser.zero_grad()
        loss.backward()
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(recipe, step, n / recipe.batch)
        optimiser.step()


@pytest.mark.parametrize("title", ["quick@1", "planted@1", "cifar10@1", "imagenette64@1"])
def test_published_recipes_train_as_ever_bit_for_bit(title: str) -> None:
    recipe = replace(find_recipe(title), epochs=2, batch=16)
    inputs, labels = pictures(40)
    models = [build("resnet-planted", 4, 3, 16, seeded(0)) for _ in range(2)]
    fit(models[0], inputs, labels, NORM, recipe, seed=3)
    plain_fit(models[1], inputs, labels, recipe, seed=3)
    torch.testing.assert_close(models[0].state_dict(), models[1].state_dict(), rtol=0, atol=0)


def test_parts_in_a_batch_count_as_one_step() -> None:
    inputs, labels = pictures(20, size=2)
    recipe = replace(RECIPE, epochs=3, batch=10, augmentation=Augmentation.NONE)
    models = [Linear(12, 4), Linear(12, 4)]
    losses = [
        fit(model, inputs, labels, NORM, replace(recipe, micro_batch=size), seed=3)
        for model, size in zip(models, (0, 3), strict=True)
    ]
    torch.testing.assert_close(models[1].linear.weight, models[0].linear.weight, rtol=1e-5, atol=1e-6)  # float32 sums
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert [len(x) for x in models[1].seen] == [3, 3, 3, 1] * 6


def test_the_loss_is_the_mean_of_the_last_epoch() -> None:
    inputs, labels = pictures(20, size=2)
    recipe = replace(RECIPE, epochs=3, batch=5, augmentation=Augmentation.NONE)
    model = Linear(12, 4)
    found = fit(model, inputs, labels, NORM, recipe, seed=3)
    assert len(model.seen) == 12
    again, losses = Linear(12, 4), []
    training = train._Training(again, inputs, labels, NORM, recipe, 3)
    while training.step < training.steps:
        training.advance()
        losses.append(training.losses[-1].item())
    assert found == pytest.approx(sum(losses[-4:]) / 4, rel=1e-6)


def test_a_set_smaller_than_a_batch_is_the_batch() -> None:
    inputs, labels = pictures(6, size=2)
    model = Linear(12, 4)
    fit(model, inputs, labels, NORM, replace(RECIPE, epochs=5, batch=4096, micro_batch=4), seed=3)
    assert [len(x) for x in model.seen] == [4, 2] * 5


def test_images_grow_over_the_training() -> None:
    inputs, labels = pictures(8, size=8)
    recipe = replace(RECIPE, epochs=8, augmentation=Augmentation.NONE, sides=(0.5, 0.75, 1.0, 1.0))
    model = build("resnet-planted", 4, 3, 8, seeded(0))
    seen: list[Tensor] = []
    model.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0].detach().clone()))
    fit(model, inputs, labels, NORM, recipe, seed=5)
    assert [x.shape[2:] for x in seen] == [(4, 4)] * 2 + [(6, 6)] * 2 + [(8, 8)] * 4
    first = inputs.images[torch.randperm(8, generator=seeded(5))]
    means = first.reshape(8, 3, 4, 2, 4, 2).mean(dim=(3, 5))  # of 2 x 2 pixels
    torch.testing.assert_close(seen[0], normalise(means, NORM), rtol=1e-5, atol=1e-5)  # float32
    predict(model, inputs, NORM, batch=8)
    assert seen[-1].shape[2:] == (8, 8)


def degraded_pictures() -> tuple[DegradedImages, Tensor]:
    generator = seeded(1)
    pixels = torch.randint(0, 256, (300, 3, 16, 16), dtype=torch.uint8, generator=generator)
    removed = torch.randint(0, 256, (300, 96), dtype=torch.uint8, generator=generator)
    return DegradedImages(pixels, removed, torch.tensor([9.5, 0.25, 77.0]), Unit.SCALAR), torch.arange(300) % 4


@pytest.mark.parametrize(
    ("kind", "precision"), [(kind, Precision.BF16) for kind in Augmentation] + [(Augmentation.NONE, Precision.FLOAT32)]
)
def test_held_images_are_those_that_every_step_would_make(
    monkeypatch: pytest.MonkeyPatch, kind: Augmentation, precision: Precision
) -> None:
    """Bit for bit: the same weights with and without."""
    inputs, labels = degraded_pictures()
    recipe = replace(RECIPE, epochs=4, batch=50, augmentation=kind, sides=(0.5, 0.75, 1.0, 1.0), precision=precision)
    weights = []
    for most in (2e9, 0):
        monkeypatch.setattr(held, "MOST", most)
        model = build("resnet-planted", 4, 3, 16, seeded(0))
        fit(model, inputs, labels, NORM, recipe, seed=5)
        weights.append(model.state_dict())
    torch.testing.assert_close(*weights, rtol=0, atol=0)


@pytest.mark.parametrize(("kind", "sizes"), [(Augmentation.SHIFT_FLIP, 3), (Augmentation.CROP_FLIP, 2)])
def test_held_images_are_read_once_for_each_size(
    monkeypatch: pytest.MonkeyPatch, kind: Augmentation, sizes: int
) -> None:
    """Crops are taken of images at full size, which are not held: they are read in every step."""
    inputs, labels = degraded_pictures()
    read: list[int] = []
    whole = DegradedImages.batch

    def counted(self: DegradedImages, index: Tensor) -> Tensor:
        read.append(len(index))
        return whole(self, index)

    monkeypatch.setattr(DegradedImages, "batch", counted)
    recipe = replace(RECIPE, epochs=8, batch=50, augmentation=kind, sides=(0.5, 0.75, 1.0, 1.0))
    fit(build("resnet-planted", 4, 3, 16, seeded(0)), inputs, labels, NORM, recipe, seed=5)
    assert sum(read) == sizes * 300 + (3 - sizes) * 4 * 300


# --- checkpoints


class Memory:
    """Keeps every state as the file would: a copy."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self.states = [state] if state else []

    def load(self) -> dict[str, Any] | None:
        return self.states[-1] if self.states else None

    def save(self, state: dict[str, Any]) -> None:
        self.states.append(copy.deepcopy(state))


def test_a_training_that_is_asked_to_end_keeps_itself_first(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, labels = pictures(20)
    kept, asked = Memory(), iter([False, False, True])
    monkeypatch.setattr(train, "asked", lambda: next(asked))
    with pytest.raises(SystemExit) as ended:
        fit(build("resnet-planted", 4, 3, 16, seeded(0)), inputs, labels, NORM, replace(RECIPE, epochs=3), 7, kept)
    assert ended.value.code == 128 + signal.SIGTERM
    assert [state["step"] for state in kept.states] == [3]


@pytest.mark.slow
@pytest.mark.parametrize("drawing", ["held", "redrawn"])
@pytest.mark.parametrize("micro_batch", [0, 3])
def test_from_any_checkpoint_the_training_ends_with_the_same_weights(
    monkeypatch: pytest.MonkeyPatch, drawing: str, micro_batch: int
) -> None:
    monkeypatch.setattr(train, "CHECKPOINT_EVERY", -1.0)  # after every step
    recipe = replace(RECIPE, epochs=3, micro_batch=micro_batch)

    def train_from(checkpoint: Memory | None) -> tuple[dict[str, Tensor], float]:
        held, labels = pictures(20)
        inputs = held
        if drawing == "redrawn":
            inputs = RedrawnImages(held.images.to(torch.uint8), 0.5, torch.tensor(NORM.mean), Unit.SCALAR, seeded(4))
        model = build("resnet-planted", 4, 3, 16, seeded(0))
        loss = fit(model, inputs, labels, NORM, recipe, 7, checkpoint)
        return model.state_dict(), loss

    kept = Memory()
    expected = train_from(None)
    torch.testing.assert_close(train_from(kept), expected, rtol=0, atol=0)
    assert [state["step"] for state in kept.states] == list(range(1, 9))
    for state in kept.states[:-1:2]:
        torch.testing.assert_close(train_from(Memory(state)), expected, rtol=0, atol=0)


def dropping(before: int, recipe: Recipe, checkpoint: Memory | None = None, seed: int = 0) -> dict[str, Tensor]:
    """Weights of a network that draws itself, from the global generator, trained after others drew from that."""
    torch.manual_seed(before)
    inputs, labels = pictures(24)
    model = nn.Sequential(nn.Dropout(0.5), Linear(3 * 16 * 16, 4))
    fit(model, inputs, labels, NORM, recipe, seed, checkpoint)
    return model.state_dict()


@pytest.mark.parametrize("optimiser", list(Optimiser))
def test_what_a_network_draws_itself_hangs_on_the_seed_alone(
    monkeypatch: pytest.MonkeyPatch, optimiser: Optimiser
) -> None:
    recipe = replace(RECIPE, epochs=2, optimiser=optimiser)
    first = dropping(0, recipe)
    torch.testing.assert_close(dropping(1, recipe), first, rtol=0, atol=0)
    assert not torch.equal(
        dropping(0, replace(recipe, smoothing=0.1), seed=1)["1.linear.weight"], first["1.linear.weight"]
    )
    monkeypatch.setattr(train, "CHECKPOINT_EVERY", -1.0)
    kept = Memory()
    dropping(0, recipe, kept)
    for state in kept.states[1:-1:2]:  # gone on with from there
        torch.testing.assert_close(dropping(2, recipe, Memory(state)), first, rtol=0, atol=0)


def test_adamw_by_its_formula() -> None:
    """Loshchilov & Hutter 2019, algorithm 2, by hand for one step: the update is the sign of the gradient."""
    recipe = replace(
        RECIPE,
        epochs=1,
        batch=4,
        warmup=0,
        peak=0.01,
        augmentation=Augmentation.NONE,
        smoothing=0.0,
        optimiser=Optimiser.ADAMW,
        weight_decay=0.1,
    )
    inputs, labels = pictures(4)
    model = Linear(3 * 16 * 16, 4)
    before = model.linear.weight.detach().clone()
    index = torch.randperm(4, generator=seeded(0))
    logits = model(normalise(inputs.images[index], NORM))
    (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(logits, labels[index]), model.linear.weight)
    fit(model, inputs, labels, NORM, recipe, 0)
    expected = before * (1 - 0.01 * 0.1) - 0.01 * gradient / (gradient.abs() + 1e-8)
    torch.testing.assert_close(model.linear.weight.detach(), expected, rtol=1e-4, atol=1e-5)
