"""Training: equality with a plain loop, checkpoints, randomness, and errors."""

import copy
import math
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from roarbench.common.device_settings import can_use_bf16
from roarbench.common.enums import Order, Precision, Unit
from roarbench.common.errors import Diverged
from roarbench.compute import train
from roarbench.compute.augment import augment, shrink_images
from roarbench.compute.degraded_images import ImagesWithExchangedMasks, RandomlyDegradedImages, RankingMask
from roarbench.compute.prediction import choose_scoring_batch_size, normalise, predict_logits
from roarbench.compute.ranking import Layout
from roarbench.compute.recipe import Augmentation, Optimiser, compute_image_side, compute_learning_rate
from roarbench.compute.train import fit
from roarbench.plan.recipes import find_recipe
from tests.helpers.processes import run_python
from tests.helpers.trainings import NORM, RECIPE, encoded, linear, network, pictures, seeded


def redraw_masks(fixed):
    return RandomlyDegradedImages(fixed.pixels, 0.5, fixed.fill, fixed.unit, seeded(4))


def test_fit_raises_diverged_at_first_nonfinite_loss():
    with pytest.raises(Diverged, match=r"the loss is (nan|inf) at step [1-9]\d? of 100, expected a finite number"):
        fit(network(), *pictures(40), NORM, replace(RECIPE, epochs=20, peak=1e30), seed=0)


def test_predict_logits_is_independent_of_number_of_images():
    assert [choose_scoring_batch_size(size) for size in (64, 65)] == [128, 32]  # of published rows
    inputs, _ = pictures(11)
    model = network()
    logits = predict_logits(model, inputs, NORM, batch=4)
    assert (logits.shape, logits.dtype, logits.requires_grad) == ((11, 4), torch.float32, False)
    assert not model.training
    for n in (1, 4, 9):
        first = replace(inputs, pixels=inputs.pixels[:n], removed=inputs.removed[:n])
        torch.testing.assert_close(predict_logits(model, first, NORM, batch=4), logits[:n], rtol=0, atol=0)


class GlobalFilter(nn.Module):
    """A layer whose complex weights are pairs of numbers, as in a global filter network (Rao et al. 2021)."""

    def __init__(self, model, side):
        super().__init__()
        self.model, self.pairs = model, nn.Parameter(torch.ones(3, side, side // 2 + 1, 2))

    def forward(self, x):
        return self.model(torch.fft.irfft2(torch.fft.rfft2(x) * torch.view_as_complex(self.pairs), s=x.shape[2:]))


def test_weights_that_are_read_as_pairs_are_trained_and_scored():
    inputs, labels = pictures(8)
    model = GlobalFilter(network(), inputs.pixels.shape[2])
    fit(model, inputs, labels, NORM, RECIPE, seed=0)
    assert predict_logits(model, inputs, NORM, batch=4).isfinite().all()
    assert not torch.equal(model.pairs, torch.ones_like(model.pairs))


def fit_with_plain_loop(model, inputs, labels, recipe, seed):
    """Training as a short loop, without parts, checkpoints, held images or reading ahead."""
    generator, n, losses = seeded(seed), len(inputs), []
    decayed = [module.weight for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    free = [values for values in model.parameters() if values.ndim == 1]  # biases and batch norm
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": free, "weight_decay": 0.0}]
    optimiser = torch.optim.SGD(groups, lr=0.0, momentum=recipe.momentum, nesterov=True, fused=True)
    model.to(memory_format=torch.channels_last).train()
    order, steps = torch.empty(0, dtype=torch.int64), round(recipe.epochs * n / recipe.batch)
    for step in range(steps):
        while len(order) < recipe.batch:
            order = torch.cat([order, torch.randperm(n, generator=generator)])
        index, order = order[: recipe.batch], order[recipe.batch :]
        images = shrink_images(inputs.batch(index), compute_image_side(recipe, step, steps, 16))
        images = normalise(augment(images, recipe.augmentation, generator), NORM)
        with torch.autocast("cpu", torch.bfloat16, enabled=can_use_bf16(recipe.precision, torch.device("cpu"))):
            logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits.float(), labels[index], label_smoothing=recipe.smoothing)
        optimiser.zero_grad()
        loss.backward()
        for group in optimiser.param_groups:
            group["lr"] = compute_learning_rate(recipe, step, n / recipe.batch)
        optimiser.step()
        losses.append(loss.item())
    return float(np.mean(losses[-math.ceil(n / recipe.batch) :]))


GROWING = replace(RECIPE, epochs=4, batch=20, sides=(0.5, 0.75, 1.0, 1.0))
PUBLISHED = ("quick", "planted", "cifar10", "imagenette64")
TRAINED = [
    *(replace(find_recipe(f"{name}@1"), epochs=2, batch=20) for name in PUBLISHED),
    *(replace(RECIPE, batch=20, epochs=1, augmentation=kind, precision=Precision.BF16) for kind in Augmentation),
    GROWING,
]


@pytest.mark.parametrize(
    ("drawing", "recipe"),
    [*(("held", recipe) for recipe in TRAINED), ("redrawn", TRAINED[0]), ("redrawn", GROWING)],
    ids=lambda each: each if isinstance(each, str) else f"{each.name}-{each.augmentation}-{each.precision}",
)
def test_fit_equals_plain_training_loop(drawing, recipe):
    """Published rows depend on every bit; fixed images are cached for all epochs."""
    fixed, labels = pictures(60)
    model, plain = network(), network()
    one, other = (fixed, fixed) if drawing == "held" else (redraw_masks(fixed), redraw_masks(fixed))
    with torch.autocast("cpu", enabled=False):  # a caller's context keeps rounded weights until it ends
        loss = fit(model, one, labels, NORM, recipe, 3)
    plain_loss = fit_with_plain_loop(plain, other, labels, recipe, 3)
    torch.testing.assert_close(model.state_dict(), plain.state_dict(), rtol=0, atol=0)
    assert loss == pytest.approx(plain_loss, rel=1e-5)  # float32 losses


def test_micro_batches_count_as_one_step():
    recipe = replace(RECIPE, epochs=3, batch=10, augmentation=Augmentation.NONE)
    whole, parted, seen = linear(2), linear(2), []
    loss = fit(whole, *pictures(20, 2), NORM, recipe, 3)
    parted.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    assert fit(parted, *pictures(20, 2), NORM, replace(recipe, micro_batch=3), 3) == pytest.approx(loss, rel=1e-5)
    torch.testing.assert_close(parted[1].weight, whole[1].weight, rtol=1e-5, atol=1e-6)  # float32 sums
    assert seen == [3, 3, 3, 1] * 6


class Memory:
    """A checkpoint in memory that copies every saved state."""

    def __init__(self, state=None):
        self.states = [state] if state else []

    def load(self):
        return self.states[-1] if self.states else None

    def save(self, state):
        self.states.append(copy.deepcopy(state))


def test_fit_saves_checkpoint_before_requested_exit(monkeypatch):
    kept, asked = Memory(), iter([False, False, True])
    monkeypatch.setattr(train, "is_stop_requested", lambda: next(asked))
    with pytest.raises(SystemExit) as ended:
        fit(network(), *pictures(20), NORM, replace(RECIPE, epochs=3), 7, kept)
    assert ended.value.code == 128 + signal.SIGTERM
    assert [state["step"] for state in kept.states] == [3]


@pytest.mark.slow
@pytest.mark.parametrize(("drawing", "micro_batch"), [("fixed", 0), ("redrawn", 3), ("exchanged", 0)])
def test_fit_resumes_from_any_checkpoint_with_same_weights(monkeypatch, drawing, micro_batch):
    monkeypatch.setattr(train, "CHECKPOINT_EVERY", -1.0)  # after every step
    recipe = replace(RECIPE, epochs=3, micro_batch=micro_batch)
    (fixed, labels), layout = pictures(20), Layout((3, 16, 16), Unit.PIXEL, (0.5,))
    cuts = (RankingMask(encoded(np.random.default_rng(1).random((20, 16, 16)), layout), layout, 0.5, Order.MORF),)

    def train_from(checkpoint):
        model, inputs = network(), fixed if drawing == "fixed" else redraw_masks(fixed)
        if drawing == "exchanged":
            inputs = ImagesWithExchangedMasks(fixed.pixels, cuts, fixed.fill, Unit.PIXEL, seeded(4))
        loss = fit(model, inputs, labels, NORM, recipe, 7, checkpoint)
        return model.state_dict(), loss

    kept = Memory()
    expected = train_from(None)
    torch.testing.assert_close(train_from(kept), expected, rtol=0, atol=0)
    assert [state["step"] for state in kept.states] == list(range(1, 9))
    for state in kept.states[:-1:2]:
        rest = Memory(state)
        torch.testing.assert_close(train_from(rest), expected, rtol=0, atol=0)
        assert [each["step"] for each in rest.states] == list(range(state["step"], 9))


def train_with_dropout(before, recipe, checkpoint=None, seed=0):
    """Train a network with dropout after `before` seeded the global generator, and return its weights."""
    torch.manual_seed(before)
    model = nn.Sequential(nn.Dropout(0.5), linear())
    fit(model, *pictures(24), NORM, recipe, seed, checkpoint)
    return model.state_dict()


@pytest.mark.parametrize("optimiser", list(Optimiser))
def test_network_randomness_depends_only_on_seed(monkeypatch, optimiser):
    recipe = replace(RECIPE, epochs=2, optimiser=optimiser)
    first = train_with_dropout(0, recipe)
    torch.testing.assert_close(train_with_dropout(1, recipe), first, rtol=0, atol=0)
    assert not torch.equal(train_with_dropout(0, recipe, seed=1)["1.1.weight"], first["1.1.weight"])
    monkeypatch.setattr(train, "CHECKPOINT_EVERY", -1.0)
    kept = Memory()
    train_with_dropout(0, recipe, kept)
    for state in kept.states[1:-1:3]:  # resumed from this state
        torch.testing.assert_close(train_with_dropout(2, recipe, Memory(state)), first, rtol=0, atol=0)


_STEPS = """
import sys
from dataclasses import replace
from roarbench.compute.recipe import Optimiser
from roarbench.compute.train import Training
from tests.helpers.processes import run_python
from tests.helpers.trainings import NORM, RECIPE, network, pictures
for optimiser in Optimiser:
    training = Training(network(), *pictures(40), NORM, replace(RECIPE, optimiser=optimiser), 0)
    training.do_optimiser_step()
    training.restore(training.get_state())
    training.do_optimiser_step()
print("torch._dynamo" in sys.modules)
"""


def test_training_does_not_import_compiler():
    """The import takes 1.2 processor seconds in each worker; 3.9 seconds if its modules must be compiled."""
    assert run_python(_STEPS) == "False\n"


def test_adamw_step_matches_formula():
    """Loshchilov & Hutter 2019, algorithm 2, by hand for one step: the update is the sign of the gradient."""
    plain = {"epochs": 1, "batch": 4, "warmup": 0, "augmentation": Augmentation.NONE, "smoothing": 0.0}
    recipe = replace(RECIPE, **plain, peak=0.01, optimiser=Optimiser.ADAMW, weight_decay=0.1)
    (inputs, labels), model = pictures(4), linear()
    weight, index = model[1].weight, torch.randperm(4, generator=seeded(0))
    logits, before = model(normalise(inputs.batch(index), NORM)), weight.detach().clone()
    (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(logits, labels[index]), weight)
    fit(model, inputs, labels, NORM, recipe, 0)
    expected = before * (1 - 0.01 * 0.1) - 0.01 * gradient / (gradient.abs() + 1e-8)
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-4, atol=1e-5)
