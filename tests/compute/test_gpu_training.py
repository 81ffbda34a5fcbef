"""Replayed training steps change weights as steps without a graph do; networks are compiled once per image size."""

import gc
import weakref
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from unittest.mock import DEFAULT, Mock

import pytest
import torch
from torch import nn

from roarbench.common.device_settings import use_exact_float32
from roarbench.common.enums import Precision
from roarbench.compute import gpu_training
from roarbench.compute.gpu_training import VARIANTS, ReplayedSteps, compile_network, is_replayable
from roarbench.compute.networks import build_network
from roarbench.compute.recipe import Augmentation, Optimiser
from roarbench.compute.train import Training, fit
from tests.helpers import trainings
from tests.helpers.fake_gpu import stand_in_for_graphs
from tests.helpers.trainings import NORM, RECIPE, network, seeded

GPU = torch.device("cuda")
BATCH = torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.int64)


class Choosing(nn.Module):
    """A layer whose Python code branches on its input."""

    def forward(self, images):
        return -images if images.mean() > 0 else images


def test_is_replayable_rejects_modules_of_other_packages():
    assert is_replayable(network())
    assert is_replayable(build_network("vit-quick", 4, 3, 32, seeded(0)))
    assert not is_replayable(nn.Sequential(network(), Choosing()))


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.conv.register_forward_pre_hook(lambda layer, inputs: None),
        lambda model: model.conv.register_full_backward_hook(lambda layer, received, sent: None),
        lambda model: model.conv.weight.register_hook(lambda gradient: None),
        lambda model: setattr(model.conv, "forward", model.conv.forward),
    ],
)
def test_is_replayable_rejects_hooks_and_replaced_forward(change):
    model = network()
    change(model)
    assert not is_replayable(model)


def test_replayed_steps_run_three_eager_steps_per_shape_before_capture(monkeypatch):
    log, steps = stand_in_for_graphs(monkeypatch), ReplayedSteps()
    for side, count in ((8, 5), (16, 4), (8, 1)):
        for number in range(count):
            labels = torch.tensor([side, number])
            assert steps.run_or_replay(lambda images, labels: labels, torch.zeros(2, 3, side, side), labels) is labels
    assert log == ["eager"] * 3 + ["capture", "replay", "replay"] + ["eager"] * 3 + ["capture", "replay", "eager"]


@pytest.mark.parametrize(
    ("error", "captures"),
    [("CUDA error: operation not permitted when stream is capturing", 1), ("CUDA out of memory", 2)],
)
def test_replayed_steps_run_eagerly_after_failed_capture(error, captures, monkeypatch, caplog):
    """A failed capture ends replay in the whole process, because torch keeps its memory; out of memory ends one."""
    stand_in_for_graphs(monkeypatch, graph := Mock(side_effect=RuntimeError(error)))
    for _ in range(2):
        steps = ReplayedSteps()
        assert all(steps.run_or_replay(lambda images, labels: labels, *BATCH) is BATCH[1] for _ in range(6))
    assert graph.call_count == caplog.text.count("launched kernel by kernel") == captures


def begin_training(recipe=RECIPE, compiled=False):
    """A training on the CPU that replays its steps as one on a GPU does."""
    training = Training(network(), *trainings.pictures(40), NORM, recipe, seed=3)
    training._gpu, training._compiles, training._batches._cache = True, compiled, None
    training._replayed = training._make_replayed_steps()
    return training


def do_steps(training, steps):
    for _ in range(steps):
        training.do_optimiser_step()
    return training


def test_training_with_several_passes_is_not_replayed():
    assert begin_training()._replayed and begin_training(replace(RECIPE, micro_batch=8))._replayed
    assert begin_training(replace(RECIPE, micro_batch=4))._replayed is None


def test_compiled_network_is_replayed_after_its_compilation(monkeypatch):
    """Both sides compile in steps without a graph; a compiler that fails leaves the weights of uncompiled steps."""
    recipe, weights = replace(RECIPE, sides=(0.5, 1.0), epochs=4), {}
    for compiler in ("absent", "works", "fails"):
        log, compiled_shapes = stand_in_for_graphs(monkeypatch), list[torch.Size]()
        training = begin_training(recipe, compiled=compiler != "absent")
        model = training._model

        def run_compiled(images, model=model, fails=compiler == "fails", shapes=compiled_shapes, log=log):
            if images.shape not in shapes:
                assert log[-1:] != ["capture"]  # the compiler may not run while a step is captured
                shapes.append(images.shape)
                if fails:
                    model(images)  # changes the statistics of batch norm
                    raise RuntimeError("no compiler")
            return model(images)

        if compiler != "absent":
            training._forward = run_compiled
        weights[compiler] = do_steps(training, training.steps).get_state()["model"]
        assert len(compiled_shapes) == {"absent": 0, "works": 2, "fails": 1}[compiler]
        assert log.count("capture") == 2 and log.count("replay") == training.steps - (5 if compiler == "fails" else 6)
    for compiler in ("works", "fails"):
        torch.testing.assert_close(weights[compiler], weights["absent"], rtol=0, atol=0)


def test_resumed_training_captures_new_graph(monkeypatch):
    log, training = stand_in_for_graphs(monkeypatch), begin_training()
    training.restore(do_steps(training, 4).get_state())
    do_steps(training, 4)
    assert log == 2 * ["eager", "eager", "eager", "capture", "replay"]


def test_image_loading_drops_graph_when_memory_runs_out(monkeypatch):
    """Batch norm forbids to split the batch; its statistics are unchanged, because loading precedes the replay."""
    log = stand_in_for_graphs(monkeypatch)
    expected, training = do_steps(begin_training(), 8).get_state()["model"], do_steps(begin_training(), 5)
    log.clear()
    outcomes = chain([torch.OutOfMemoryError("CUDA out of memory")], repeat(DEFAULT))
    load = Mock(side_effect=outcomes, wraps=training._batches.load)
    monkeypatch.setattr(training._batches, "load", load)
    torch.testing.assert_close(do_steps(training, 3).get_state()["model"], expected, rtol=0, atol=0)
    assert training._replayed is None and log == []


def test_resumed_training_keeps_optimiser_settings_of_its_device(monkeypatch):
    """The restored state comes from a GPU, where the learning rate is a tensor and AdamW is capturable."""
    stand_in_for_graphs(monkeypatch)
    training = begin_training(replace(RECIPE, optimiser=Optimiser.ADAMW))
    state = do_steps(training, 1).get_state()
    for group in state["optimiser"]["param_groups"]:
        group |= {"capturable": True, "lr": torch.tensor(0.5)}
    training.restore(state)
    assert {(group["capturable"], type(group["lr"])) for group in training._optimiser.param_groups} == {(False, float)}
    assert training._optimiser.state_dict()["state"][0]["step"] == 1


@pytest.mark.parametrize("kind", [Augmentation.SHIFT_FLIP, Augmentation.CROP_FLIP])
def test_fit_frees_training_memory_when_it_returns(kind, monkeypatch):
    """Graph, images and gradients are freed without a collection of reference cycles."""
    begun, model = [], network()

    def begin_training(*options):
        training = Training(*options)
        begun.append([weakref.ref(training), weakref.ref(training._batches)])
        return training

    monkeypatch.setattr("roarbench.compute.train.Training", begin_training)
    gc.disable()
    try:
        for _ in range(2):  # torch's first optimiser keeps the frames in which it was made
            fit(model, *trainings.pictures(40), NORM, replace(RECIPE, augmentation=kind), seed=3)
        assert [reference() for reference in begun[1]] == [None, None]
    finally:
        gc.enable()
    assert all(parameter.grad is None for parameter in model.parameters())


def make_network_with_dropout():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * trainings.SIDE**2, 32), nn.Dropout(0.5), nn.Linear(32, 4))


def train_on_gpu(make, recipe, replaying, monkeypatch):
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
    monkeypatch.undo()
    return [*model.state_dict().values(), *training.losses], training


@pytest.mark.gpu
@pytest.mark.parametrize("make", [network, make_network_with_dropout])
@pytest.mark.parametrize("sides", [(1.0,), (0.5, 1.0)])
@pytest.mark.parametrize("optimiser", Optimiser)
@pytest.mark.parametrize("precision", Precision)
def test_replayed_steps_give_weights_of_eager_steps(precision, optimiser, sides, make, monkeypatch):
    if make is make_network_with_dropout and sides != (1.0,):
        pytest.skip("a linear layer has one size")
    recipe = replace(RECIPE, precision=precision, optimiser=optimiser, sides=sides, peak=0.01)
    found, training = train_on_gpu(make, recipe, True, monkeypatch)
    assert training._replayed._graph is not None
    expected, training = train_on_gpu(make, recipe, False, monkeypatch)
    assert training._replayed is None
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.gpu
def test_replayed_compiled_steps_give_weights_of_compiled_steps(monkeypatch):
    recipe = replace(RECIPE, peak=0.01, compile=True)
    found, training = train_on_gpu(network, recipe, True, monkeypatch)
    assert training._compiles and training._replayed._graph is not None
    expected, training = train_on_gpu(network, recipe, False, monkeypatch)
    assert training._compiles and training._replayed is None
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.gpu
def test_step_that_waits_for_gpu_runs_without_graph(caplog, monkeypatch):
    monkeypatch.setattr("roarbench.compute.gpu_training._CAPTURE_FAILURES", [])
    weights = torch.zeros(2, device=GPU)

    def wait_and_add(images, labels):
        weights.add_(images.mean().item())  # a capture allows no waiting
        return weights.sum()

    steps, images, labels = ReplayedSteps(), torch.ones(4, 2, device=GPU), torch.zeros(4, device=GPU)
    sums = [steps.run_or_replay(wait_and_add, images, labels).item() for _ in range(6)]
    assert sums == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    assert "launched kernel by kernel" in caplog.text


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of torch's compiler
@pytest.mark.slow
def test_compile_network_compiles_each_image_size_once(monkeypatch):
    """After eight variants of a class of networks torch stops compiling, and only its log says so."""
    graphs = []

    def count_graph(graph, examples):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=count_graph))
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 8)  # torch's default; restored after the test
    torch.compiler.reset()
    for seed, side in enumerate([8, 8, *range(10, 26, 2), 8]):
        forward = compile_network(build_network("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(seed)))
        forward(torch.zeros(2, 3, side, side))
    assert len(graphs) == 9 < VARIANTS
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of torch's compiler
def test_compile_network_switches_off_slow_option_of_compiler():
    import torch._inductor.config as inductor

    compile_network(torch.nn.Linear(3, 2))
    assert not getattr(inductor, "loop_reindexing_after_fusion", False)


def test_compiler_that_cannot_start_is_recorded(monkeypatch):
    """Torch rejects versions of Python that are newer than itself."""
    monkeypatch.setattr(gpu_training, "_FAILURES", [])
    monkeypatch.setattr(torch, "compile", Mock(side_effect=RuntimeError("not supported on Python 3.99+")))
    assert compile_network(torch.nn.Linear(3, 2)) is None
    assert "Python 3.99+" in gpu_training.describe_compilation_failure()
