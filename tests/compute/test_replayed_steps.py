"""Replayed training steps change weights as steps without a graph do; most tests need a GPU."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from roarbench.compute.networks import build_network
from roarbench.compute.recipe import Optimiser
from roarbench.compute.replayed_steps import ReplayedSteps, is_replayable
from roarbench.compute.train import Training
from roarbench.device_settings import use_exact_float32
from roarbench.enums import Precision
from tests.helpers import trainings
from tests.helpers.streamed import seeded
from tests.helpers.trainings import NORM, RECIPE, network

ON_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; this machine has none"),
]
GPU = torch.device("cuda")


def on_gpu(gpu_test):
    for mark in ON_GPU:
        gpu_test = mark(gpu_test)
    return gpu_test


class Choosing(nn.Module):
    """A layer whose Python code chooses what it computes."""

    def forward(self, images):
        return -images if images.mean() > 0 else images


def test_networks_with_modules_of_other_packages_are_not_replayed():
    assert is_replayable(network())
    assert is_replayable(build_network("vit-quick", 4, 3, 32, seeded(0)))
    assert not is_replayable(nn.Sequential(network(), Choosing()))


def with_dropout():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * trainings.SIDE**2, 32), nn.Dropout(0.5), nn.Linear(32, 4))


def train_on_gpu(make, recipe, replaying, monkeypatch, stops=()):
    """Return the weights, buffers and losses after a training, and the training."""
    if not replaying:
        monkeypatch.setattr("roarbench.compute.train.is_replayable", lambda model: False)
    torch.manual_seed(0)
    inputs, labels = trainings.pictures(40)
    inputs = replace(inputs, pixels=inputs.pixels.to(GPU), removed=inputs.removed.to(GPU), fill=inputs.fill.to(GPU))
    model = make().to(GPU)
    with use_exact_float32():
        training = Training(model, inputs, labels, NORM, recipe, seed=3)
        while training.step < training.steps:
            training.do_optimiser_step()
            if training.step in stops:
                state, training = training.state(), Training(model, inputs, labels, NORM, recipe, seed=3)
                training.restore(state)
    monkeypatch.undo()
    return [*model.state_dict().values(), *training.losses], training


@on_gpu
@pytest.mark.parametrize("make", [network, with_dropout])
@pytest.mark.parametrize("sides", [(1.0,), (0.5, 1.0)])
@pytest.mark.parametrize("optimiser", Optimiser)
@pytest.mark.parametrize("precision", Precision)
def test_replayed_steps_give_the_weights_of_steps_without_a_graph(precision, optimiser, sides, make, monkeypatch):
    if make is with_dropout and sides != (1.0,):
        pytest.skip("a linear layer has one size")
    recipe = replace(RECIPE, precision=precision, optimiser=optimiser, sides=sides, peak=0.01)
    found, training = train_on_gpu(make, recipe, True, monkeypatch)
    assert training._replayed._graph is not None
    expected, training = train_on_gpu(make, recipe, False, monkeypatch)
    assert training._replayed is None
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@on_gpu
def test_a_resumed_training_gives_the_weights_of_an_uninterrupted_one(monkeypatch):
    recipe = replace(RECIPE, precision=Precision.FLOAT32)
    expected, _ = train_on_gpu(network, recipe, True, monkeypatch)
    found, _ = train_on_gpu(network, recipe, True, monkeypatch, stops=(2, 9))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@on_gpu
def test_a_step_that_cannot_be_captured_runs_without_a_graph(caplog):
    weights = torch.zeros(2, device=GPU)

    def wait_and_add(images, labels):
        weights.add_(images.mean().item())  # a capture allows no waiting
        return weights.sum()

    steps, images, labels = ReplayedSteps(), torch.ones(4, 2, device=GPU), torch.zeros(4, device=GPU)
    assert [steps.run(wait_and_add, images, labels).item() for _ in range(6)] == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    assert "launched kernel by kernel" in caplog.text
