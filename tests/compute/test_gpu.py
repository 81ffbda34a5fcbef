"""A GPU computes the results of a CPU up to rounding; without a GPU these tests are skipped."""

from dataclasses import replace

import pytest
import torch

from roarbench.common.enums import Order, Precision, Unit
from roarbench.common.errors import NoRoom
from roarbench.compute.augment import augment
from roarbench.compute.degraded_images import RandomlyDegradedImages, StreamedChangingImages, StreamedImages
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import normalise, predict_logits
from roarbench.compute.recipe import Augmentation
from roarbench.compute.train import Training, fit
from tests.helpers import trainings
from tests.helpers.networks import randomise_weights
from tests.helpers.trainings import CPU, NORM, both, network, seeded

pytestmark = pytest.mark.gpu
GPU = torch.device("cuda")
RECIPE, LABELS = replace(trainings.RECIPE, augmentation=Augmentation.CROP_FLIP, peak=0.05), torch.arange(40) % 4


def move_to_gpu(held):
    return replace(held, pixels=held.pixels.to(GPU), removed=held.removed.to(GPU), fill=held.fill.to(GPU))


@pytest.mark.parametrize("unit", Unit)
def test_degraded_and_redrawn_images_on_gpu_equal_cpu(unit):
    _, held = both(unit=unit)
    there = move_to_gpu(held)
    redrawn = [RandomlyDegradedImages(each.pixels, 0.5, each.fill, unit, seeded(4)) for each in (held, there)]
    for one, other in ((held, there), redrawn):
        for index in torch.randperm(20, generator=seeded(5)).split(8):
            torch.testing.assert_close(other.batch(index).cpu(), one.batch(index), rtol=0, atol=0)


@pytest.mark.parametrize("kind", Augmentation)
def test_augment_on_gpu_matches_cpu(kind):
    images = 255 * torch.rand(16, 3, 32, 32, generator=seeded(1))
    one, other = (normalise(augment(some, kind, seeded(2)), NORM).cpu() for some in (images, images.to(GPU)))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-3)  # float32 places in a bicubic crop


def test_streamed_images_on_gpu_equal_images_in_memory():
    reader, held = both(0.5, Order.LERF, n=200)
    streamed = StreamedImages(reader._pixels, reader._removed, held.fill, held.unit, GPU)
    batches = torch.randperm(200, generator=seeded(3)).split(16)
    for index, read in zip(batches, streamed.read(batches), strict=True):
        torch.testing.assert_close(read.cpu(), held.batch(index), rtol=0, atol=0)


def test_streamed_changing_images_on_gpu_equal_cpu():
    _, held = both(n=200)
    fills = (held.fill, held.fill.to(GPU))
    here, there = (RandomlyDegradedImages(held.pixels, 0.5, fill, held.unit, seeded(4)) for fill in fills)
    streamed, batches = StreamedChangingImages(there, held.pixels.numpy(), GPU), torch.arange(200).split(16)
    for index, read in zip(batches, streamed.read(batches), strict=True):
        torch.testing.assert_close(read.cpu(), here.batch(index), rtol=0, atol=0)


@pytest.mark.parametrize("compiling", [False, True])
@pytest.mark.parametrize("micro_batch", [0, 3])
@pytest.mark.parametrize("precision", Precision)
def test_training_on_gpu_gives_logits_of_cpu_training(precision, micro_batch, compiling):
    _, held = both(n=40)
    recipe = replace(RECIPE, precision=precision, micro_batch=micro_batch, compile=compiling)
    logits = []
    for where, inputs in ((CPU, held), (GPU, move_to_gpu(held))):
        model = network(8).to(where)
        assert 0 < fit(model, inputs, LABELS, NORM, recipe, seed=3) < 3
        logits.append(predict_logits(model, inputs, NORM, batch=128))
    # twenty steps; bfloat16 has 8 bits, and batch norm passes differences on
    torch.testing.assert_close(*logits, rtol=0, atol=0.02 if precision is Precision.FLOAT32 else 0.5)


@pytest.mark.parametrize("kind", Augmentation)
def test_training_step_does_not_synchronise_with_gpu(kind):
    recipe, (_, held) = replace(RECIPE, augmentation=kind, precision=Precision.BF16), both(n=40)
    training = Training(network(8).to(GPU), move_to_gpu(held), LABELS, NORM, recipe, seed=3)
    for _ in range(5):  # fills the memory pools
        training.do_optimiser_step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(12):
            training.do_optimiser_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert training.step == 5 + 12


def test_predict_logits_uses_float32_on_gpu():
    _, held = both(n=40)
    model = randomise_weights(build_network("resnet8", 4, 3, 8, seeded(0)), seeded(1))
    expected = predict_logits(model, held, NORM, batch=128)
    found = predict_logits(model.to(GPU), move_to_gpu(held), NORM, batch=128)
    # sums of float32 in another order; TF32 has 10 bits and would be off by a thousandth
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())


def test_fit_raises_no_room_and_keeps_weights_when_first_step_does_not_fit():
    """The process may use a quarter of a gigabyte, and batch norm forbids to split the step."""
    model = build_network("resnet18", 4, 3, 64, seeded(0)).to(GPU)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    inputs, labels = trainings.pictures(128, 64)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.25e9 / torch.cuda.mem_get_info()[1])
    try:
        with pytest.raises(NoRoom, match="a step of 128 images takes more than"):
            fit(model, move_to_gpu(inputs), labels, NORM, replace(RECIPE, batch=128), seed=3)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    torch.testing.assert_close([*model.parameters()], before, rtol=0, atol=0)
