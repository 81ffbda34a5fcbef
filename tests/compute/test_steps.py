"""Training steps that exceed GPU memory, simulated on a CPU: the network raises the out-of-memory error."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from roarbench.common.device_settings import is_machine_failure
from roarbench.common.errors import NoRoom
from roarbench.compute import gpu_training, train, training_batches
from roarbench.compute.degraded_images import (
    PREFETCHED_PARTS,
    RandomlyDegradedImages,
    StreamedChangingImages,
    StreamedImages,
)
from roarbench.compute.train import Training
from roarbench.compute.training_batches import PIXEL_MOVING, TrainingBatches
from tests.helpers.networks import Small
from tests.helpers.trainings import NORM, RECIPE, network, pictures


def make_network_without_batch_norm():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


def make_limited_training(model, images, on_gpu=True, inputs=None, micro_batch=0):
    """Make a training whose network runs out of memory above this number of images per pass."""
    limited = Small(model, images, torch.OutOfMemoryError("CUDA out of memory"))
    found, labels = pictures(24)
    recipe = replace(RECIPE, epochs=2, sides=(0.5, 1.0), micro_batch=micro_batch)
    training = Training(limited, inputs or found, labels, NORM, recipe, seed=3)
    training._gpu, training._batches._cache = on_gpu, None
    return training


def train_and_get_weights(training):
    while training.step < training.steps:
        training.do_optimiser_step()
    return training.get_state()["model"]


def assert_same_weights_as_without_limit(training, **options):
    """Training ends with the weights of one that has memory for a whole batch."""
    whole = make_limited_training(make_network_without_batch_norm(), 8, **options)
    found, expected = train_and_get_weights(training), train_and_get_weights(whole)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # float32, in sums of another order


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    memory = {"share": 4e9, "there": 4e9}
    monkeypatch.setattr(train, "compute_gpu_bytes_per_worker", lambda: memory["share"])
    for module in (train, training_batches):
        monkeypatch.setattr(module, "count_available_gpu_bytes", lambda: memory["there"])
    return memory


@pytest.mark.parametrize(("images", "parts"), [(7, 4), (3, 2), (1, 1)])
def test_step_without_batch_norm_is_split_until_it_fits_with_same_weights(images, parts):
    training = make_limited_training(make_network_without_batch_norm(), images)
    assert_same_weights_as_without_limit(training)
    assert training._model.seen[-1] == parts


@pytest.mark.parametrize("micro_batch", [0, 3])
def test_repeated_step_reads_and_draws_same_images(micro_batch):
    fixed, _ = pictures(24)
    pixels, removed = fixed.pixels.numpy(), fixed.removed.numpy()

    def redrawn():
        return RandomlyDegradedImages(fixed.pixels, 0.5, fixed.fill, fixed.unit, torch.Generator().manual_seed(7))

    for make in (
        lambda: StreamedImages(pixels, removed, fixed.fill, fixed.unit, torch.device("cpu")),
        redrawn,
        lambda: StreamedChangingImages(redrawn(), pixels, torch.device("cpu")),
    ):
        halved = make_limited_training(make_network_without_batch_norm(), 2, inputs=make(), micro_batch=micro_batch)
        assert_same_weights_as_without_limit(halved, inputs=make(), micro_batch=micro_batch)
        assert halved.images_per_pass == (2 if micro_batch == 0 else 1)


@pytest.mark.parametrize("changing", [False, True])
def test_step_reads_batches_of_next_steps_ahead(changing, monkeypatch):
    """24 images make three batches of three parts; then the next epoch begins."""
    fixed, labels = pictures(24)
    inputs = StreamedImages(fixed.pixels.numpy(), None, fixed.fill, fixed.unit, torch.device("cpu"))
    recipe, begun, counts = replace(RECIPE, epochs=2, micro_batch=3), [], []
    read = inputs._start_reading
    monkeypatch.setattr(inputs, "_start_reading", lambda index: begun.append(index) or read(index))
    if changing:
        drawn = RandomlyDegradedImages(fixed.pixels, 0.5, fixed.fill, fixed.unit, torch.Generator())
        changing_images = StreamedChangingImages(drawn, fixed.pixels.numpy(), torch.device("cpu"))
        changing_images._pixels, inputs = inputs, changing_images
    training = Training(make_network_without_batch_norm(), inputs, labels, NORM, recipe, seed=3)
    while training.step < training.steps:
        training.do_optimiser_step()
        counts.append(len(begun))
    assert counts == [3 + PREFETCHED_PARTS, 9, 9, 9 + 3 + PREFETCHED_PARTS, 18, 18]


@pytest.mark.parametrize(
    ("make", "images", "said"),
    [
        (network, 7, "a step of 8 images takes .* worker; because of batch norm, the step cannot be split"),
        (
            make_network_without_batch_norm,
            0,
            "a step of 1 images takes more than 4.0 GB of GPU memory, the share of each worker; use",
        ),
    ],
)
def test_unsplittable_step_raises_no_room_unless_others_hold_memory(make, images, said, gpu):
    """If others hold the memory, the error is one of the machine, and the job is retried."""
    with pytest.raises(NoRoom, match=said):
        make_limited_training(make(), images).do_optimiser_step()
    gpu["there"] = 1e9
    with pytest.raises(torch.OutOfMemoryError):
        make_limited_training(make(), images).do_optimiser_step()


@pytest.fixture
def nothing_compiled_yet(monkeypatch):
    """Forget failures of the compiler."""
    monkeypatch.setattr(gpu_training, "_FAILURES", [])


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_compiled_yet")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of torch's compiler
@pytest.mark.parametrize("compiled", [0, 2])
def test_step_is_repeated_eagerly_when_compilation_fails(monkeypatch, compiled):
    """The backward pass is compiled inside `backward`, after the forward pass changed batch norm statistics.

    Each image side compiles twice, because the last part of a batch has another number of images.
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
    for compiles in (True, False):
        model, (inputs, labels) = network(), pictures(24)
        training = Training(model, inputs, labels, NORM, replace(RECIPE, epochs=2, sides=(0.5, 1.0), micro_batch=3), 3)
        if compiles:
            training._compiles, training._forward = True, gpu_training.compile_network(model)
        states.append((train_and_get_weights(training), list(training.losses)))
    assert counts["compiled"] == compiled + 1
    assert "the backward kernel cannot be compiled" in gpu_training.describe_compilation_failure()
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)
    torch.compiler.reset()


@pytest.mark.usefixtures("nothing_compiled_yet")
def test_compiler_that_runs_out_of_memory_keeps_compiling():
    def run_out_of_memory(images):
        raise ValueError("of the compiler") from torch.OutOfMemoryError("CUDA out of memory")

    training = make_limited_training(network(), 8)
    training._compiles, training._forward = True, run_out_of_memory
    with pytest.raises(NoRoom):
        training.do_optimiser_step()
    assert training._compiles and gpu_training.describe_compilation_failure() == ""


@pytest.mark.usefixtures("nothing_compiled_yet")
def test_smaller_passes_run_eagerly_when_compiler_fails_on_them():
    training = make_limited_training(make_network_without_batch_norm(), 8)
    model = training._model

    def run_whole_batches(images):
        if len(images) < RECIPE.batch:
            raise ValueError("no kernel for so few images")
        return model(images)

    training._compiles, training._forward = True, run_whole_batches
    training.do_optimiser_step()
    model.limit = 7
    assert_same_weights_as_without_limit(training)
    assert "so few images" in gpu_training.describe_compilation_failure()


@pytest.mark.usefixtures("nothing_compiled_yet")
def test_machine_failure_inside_compiler_is_raised_as_such():
    def lose_gpu(images):
        raise ValueError("of the compiler") from RuntimeError("CUDA error: unspecified launch failure")

    training = make_limited_training(make_network_without_batch_norm(), 8)
    training._compiles, training._forward = True, lose_gpu
    with pytest.raises(RuntimeError) as raised:
        training.do_optimiser_step()
    assert is_machine_failure(raised.value) and gpu_training.describe_compilation_failure() == ""


def test_step_on_cpu_raises_out_of_memory_without_splitting():
    with pytest.raises(torch.OutOfMemoryError):
        make_limited_training(make_network_without_batch_norm(), 7, on_gpu=False).do_optimiser_step()


@pytest.mark.parametrize("kind", sorted(PIXEL_MOVING))
@pytest.mark.parametrize("sides", [(1.0, 1.0), (0.5, 1.0)])
def test_gpu_image_cache_equals_cpu_image_cache(kind, sides):
    (inputs, labels), recipe = pictures(24), replace(RECIPE, augmentation=kind, sides=sides)
    made = []
    for on_gpu in (False, True):
        batches = TrainingBatches(inputs, labels, NORM, recipe, 3, torch.device("cpu"))
        batches._gpu = on_gpu
        batches._cache = batches._make_cache(inputs)
        made.append([batches.load(torch.arange(start, start + 8), step=0)[0] for start in (0, 8, 16)])
    torch.testing.assert_close(made[1], made[0], rtol=0, atol=0)
    assert all(images.is_contiguous(memory_format=torch.channels_last) for images in made[1])
