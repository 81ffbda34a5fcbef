"""Steps that do not fit in a GPU's memory, on a processor: a network says when memory ran out."""

from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from roarbench.common import device_settings
from roarbench.common.errors import NoRoom
from roarbench.compute import train
from roarbench.compute.degrade import RandomlyDegradedImages
from roarbench.compute.inputs import PIXEL_MOVING
from roarbench.compute.streamed_degraded_images import AHEAD, StreamedChangingImages, StreamedImages
from roarbench.compute.train import Training
from tests.helpers.networks import Small
from tests.helpers.trainings import NORM, RECIPE, network, pictures


def plain():
    """Without batch norm."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


def training_of(model, images, on_gpu=True, inputs=None, micro_batch=0):
    """A training with memory for so many images."""
    limited = Small(model, images, torch.OutOfMemoryError("CUDA out of memory"))
    found, labels = pictures(24)
    recipe = replace(RECIPE, epochs=2, sides=(0.5, 1.0), micro_batch=micro_batch)
    training = Training(limited, inputs or found, labels, NORM, recipe, seed=3)
    training._gpu, training._cache = on_gpu, None
    return training


def weights_after(training):
    while training.step < training.steps:
        training.do_optimiser_step()
    return training.state()["model"]


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    memory = {"share": 4e9, "there": 4e9}
    monkeypatch.setattr(train, "compute_gpu_memory_share", lambda: memory["share"])
    monkeypatch.setattr(train, "count_available_gpu_bytes", lambda: memory["there"])
    return memory


@pytest.mark.parametrize(("images", "parts"), [(7, 4), (3, 2), (1, 1)])
def test_without_batch_norm_parts_are_halved_and_the_training_stays(images, parts):
    training = training_of(plain(), images)
    found, expected = weights_after(training), weights_after(training_of(plain(), 8))
    assert training._model.seen[-1] == parts
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # float32, in sums of another order


@pytest.mark.parametrize("micro_batch", [0, 3])
def test_a_step_that_is_done_again_reads_and_draws_the_same(micro_batch):
    """Streamed images, which are read ahead, and images whose removed features are drawn anew."""
    fixed, _ = pictures(24)
    pixels, removed = fixed.pixels.numpy(), fixed.removed.numpy()

    def redrawn():
        return RandomlyDegradedImages(fixed.pixels, 0.5, fixed.fill, fixed.unit, torch.Generator().manual_seed(7))

    for make in (
        lambda: StreamedImages(pixels, removed, fixed.fill, fixed.unit, torch.device("cpu")),
        redrawn,
        lambda: StreamedChangingImages(redrawn(), pixels, torch.device("cpu")),
    ):
        halved = training_of(plain(), 2, inputs=make(), micro_batch=micro_batch)
        found = weights_after(halved)
        assert halved.images_per_pass == (2 if micro_batch == 0 else 1)
        expected = weights_after(training_of(plain(), 8, inputs=make(), micro_batch=micro_batch))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # float32, in sums of another order


@pytest.mark.parametrize("changing", [False, True])
def test_parts_of_the_next_steps_are_read_during_a_step(changing, monkeypatch):
    """24 images are three batches of eight, of which each has three parts; then new batches are drawn."""
    fixed, labels = pictures(24)
    inputs = StreamedImages(fixed.pixels.numpy(), None, fixed.fill, fixed.unit, torch.device("cpu"))
    recipe, begun, counts = replace(RECIPE, epochs=2, micro_batch=3), [], []
    monkeypatch.setattr(
        inputs, "_start_reading", lambda index, real=inputs._start_reading: begun.append(index) or real(index)
    )
    if changing:
        drawn = RandomlyDegradedImages(fixed.pixels, 0.5, fixed.fill, fixed.unit, torch.Generator())
        changing_images = StreamedChangingImages(drawn, fixed.pixels.numpy(), torch.device("cpu"))
        changing_images._pixels = inputs
    training = Training(plain(), changing_images if changing else inputs, labels, NORM, recipe, seed=3)
    while training.step < training.steps:
        training.do_optimiser_step()
        counts.append(len(begun))
    assert counts == [3 + AHEAD, 9, 9, 9 + 3 + AHEAD, 18, 18]


@pytest.mark.parametrize(
    ("make", "images", "said"),
    [
        (network, 7, "a step of 8 images takes .* worker; because of batch norm, the step cannot be split"),
        (plain, 0, "a step of 1 images takes more than 4.0 GB of GPU memory, the share of each worker; use"),
    ],
)
def test_what_cannot_be_halved_is_refused_unless_others_hold_the_memory(make, images, said, gpu):
    """Then the machine failed, and the job is tried again."""
    with pytest.raises(NoRoom, match=said):
        training_of(make(), images).do_optimiser_step()
    gpu["there"] = 1e9
    with pytest.raises(torch.OutOfMemoryError):
        training_of(make(), images).do_optimiser_step()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of torch's compiler
@pytest.mark.parametrize("compiled", [0, 2])
def test_a_step_whose_backward_pass_cannot_be_compiled_is_done_again_uncompiled(monkeypatch, compiled):
    """The compiler compiles it inside of `backward`, after the forward pass changed the statistics of batch norm.

    It is called twice for each side, because the last part of a batch has another number of images.
    """
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def compile_backward(graph, examples):
        counts["compiled"] += 1
        if counts["compiled"] > compiled:
            raise RuntimeError("the backward kernel cannot be compiled")
        return make_boxed_func(graph.forward)

    counts = {"compiled": 0}
    backend = aot_autograd(
        fw_compiler=lambda graph, examples: make_boxed_func(graph.forward), bw_compiler=compile_backward
    )
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    torch.compiler.reset()
    states = []
    for failed in ([], ["nothing is compiled"]):
        monkeypatch.setattr(device_settings, "_COMPILER_FAILURES", failed)
        model, (inputs, labels) = network(), pictures(24)
        recipe = replace(RECIPE, epochs=2, sides=(0.5, 1.0), micro_batch=3)
        training = Training(model, inputs, labels, NORM, recipe, seed=3)
        training._compiles, training._forward = True, device_settings.compile_network(model)
        states.append((weights_after(training), list(training.losses)))
    assert counts["compiled"] == compiled + 1
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)
    torch.compiler.reset()


def test_the_statistics_of_batch_norm_are_copied_only_before_a_step_that_compiles(monkeypatch):
    monkeypatch.setattr(device_settings, "_COMPILER_FAILURES", ["nothing is compiled"])
    model, (inputs, labels) = network(), pictures(24)
    training = Training(model, inputs, labels, NORM, replace(RECIPE, epochs=2, sides=(0.5, 1.0)), seed=3)
    training._compiles, model.buffers = True, Mock(wraps=model.buffers)
    weights_after(training)
    assert training.steps > 2 and model.buffers.call_count == 2  # sides


def test_on_a_processor_nothing_is_halved():
    with pytest.raises(torch.OutOfMemoryError):
        training_of(plain(), 7, on_gpu=False).do_optimiser_step()


@pytest.mark.parametrize("kind", sorted(PIXEL_MOVING))
@pytest.mark.parametrize("sides", [(1.0, 1.0), (0.5, 1.0)])
def test_images_held_on_a_gpu_are_those_held_on_a_processor(kind, sides):
    inputs, labels = pictures(24)
    made = []
    for on_gpu in (False, True):
        training = Training(network(), inputs, labels, NORM, replace(RECIPE, augmentation=kind, sides=sides), seed=3)
        training._gpu = on_gpu
        training._cache = training._make_cache(inputs)
        made.append([training._load_augmented_images(torch.arange(start, start + 8)) for start in (0, 8, 16)])
    torch.testing.assert_close(made[1], made[0], rtol=0, atol=0)
    assert all(images.is_contiguous(memory_format=torch.channels_last) for images in made[1])
