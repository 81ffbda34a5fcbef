"""CUDA code paths on a GPU of fake tensors, see `fake_gpu`: devices of tensors, and operations that wait."""

import math
from dataclasses import replace

import pytest
import torch

from roarbench.common.device_settings import choose_fastest_float32_layout
from roarbench.common.enums import PAPER_LEVELS, Precision, Unit
from roarbench.compute import gpu_training, map_ranking, train
from roarbench.compute.augment import augment, shrink_images
from roarbench.compute.degraded_images import MEMORY_SHARE, DegradedImages, RandomlyDegradedImages, RemovalMasks
from roarbench.compute.prediction import predict_logits
from roarbench.compute.ranking import Layout
from roarbench.compute.recipe import Augmentation
from roarbench.compute.train import fit
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Batch, ClassImages, Estimator, SharedPassSettings
from tests.helpers import trainings
from tests.helpers.fake_gpu import GPU, fake_gpu
from tests.helpers.trainings import NORM, network, seeded

pytestmark = pytest.mark.slow  # fake tensors import sympy

RECIPE = replace(trainings.RECIPE, precision=Precision.BF16)
N, SHAPE = 20, (3, 16, 16)


def make_inputs(kind="degraded", unit=Unit.SCALAR):
    pixels = torch.zeros(N, *SHAPE, dtype=torch.uint8, device=GPU)
    removed = torch.zeros(N, 96 if unit is Unit.SCALAR else 32, dtype=torch.uint8, device=GPU)
    fill = torch.zeros(3, device=GPU)
    return {
        "untouched": DegradedImages(pixels, None, fill, unit),
        "degraded": DegradedImages(pixels, removed, fill, unit),
        "maps": RemovalMasks(SHAPE, removed, unit),
        "redrawn": RandomlyDegradedImages(pixels, 0.5, fill, unit, seeded(0)),
    }[kind]


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("kind", ["untouched", "degraded", "maps", "redrawn"])
def test_batch_is_made_and_augmented_on_gpu_without_waiting(kind, unit):
    with fake_gpu() as gpu:
        batch = make_inputs(kind, unit).batch(torch.arange(4))
        assert (batch.device.type, tuple(batch.shape), batch.dtype) == ("cuda", (4, *SHAPE), torch.float32)
        for augmentation in set(Augmentation) - {Augmentation.CORNERS}:  # which writes in place
            images = augment(shrink_images(batch, 8), augmentation, seeded(0))
            assert (images.device.type, tuple(images.shape)) == ("cuda", (4, 3, 8, 8)), augmentation
        assert gpu.waits == []


def train_on_fake_gpu(recipe, kind="degraded"):
    with fake_gpu() as gpu:
        fit(network().to(GPU), make_inputs(kind), torch.arange(N) % 4, NORM, recipe, seed=1)
        return gpu


@pytest.mark.parametrize(("kind", "micro_batch"), [(Augmentation.NONE, 0), (Augmentation.CROP_FLIP, 3)])
def test_training_step_does_not_wait_for_gpu(kind, micro_batch):
    recipe = replace(RECIPE, augmentation=kind, micro_batch=micro_batch, sides=(0.5, 1.0))
    short, long = (train_on_fake_gpu(replace(recipe, epochs=steps * recipe.batch / N)) for steps in (2, 4))
    assert long.waits == short.waits  # waits come before the first step, and at reading the loss after the last
    assert short.waits.count("item") == 2
    # transfers of each part: the index, for cached images or for pixels and bits, and for labels; random draws
    assert long.sent - short.sent == {Augmentation.NONE: 2 * 2, Augmentation.CROP_FLIP: 3 * (2 + 2) + 3 * (3 + 2)}[kind]


@pytest.mark.parametrize(
    ("precision", "kind", "width"),
    [
        (Precision.BF16, Augmentation.SHIFT_FLIP, 2),
        (Precision.FLOAT32, Augmentation.SHIFT_FLIP, 4),
        (Precision.BF16, Augmentation.CROP_FLIP, 4),
    ],
)
def test_training_caches_images_on_gpu_only_if_they_fit(precision, kind, width):
    """Fake tensors allow 2.5 billion values; the GPU holds the original pixels, too."""
    n, shape = 200_000, (3, 64, 64)
    needed = n * math.prod(shape) * (1 + width)
    with fake_gpu() as gpu:
        pixels = torch.zeros(n, *shape, dtype=torch.uint8, device=GPU)
        images = DegradedImages(pixels, None, torch.zeros(3, device=GPU), Unit.SCALAR)
        for memory, held in ((needed / MEMORY_SHARE + 1, True), (needed / MEMORY_SHARE - 1, False)):
            gpu.memory = memory
            recipe = replace(RECIPE, precision=precision, augmentation=kind)
            training = train.Training(network(64).to(GPU), images, torch.arange(n) % 4, NORM, recipe, 0)
            assert (training._batches._cache is not None) is held


@pytest.mark.parametrize("by_recipe", [False, True])
def test_fit_compiles_network_on_gpu_if_recipe_requests(by_recipe, monkeypatch):
    models = []
    monkeypatch.setattr(gpu_training, "_FAILURES", [])  # of earlier tests in this process
    monkeypatch.setattr(train, "compile_network", lambda model: models.append(model) or model)
    train_on_fake_gpu(replace(RECIPE, compile=by_recipe))
    assert bool(models) is by_recipe


def test_fit_trains_eagerly_when_compiler_cannot_start(monkeypatch):
    monkeypatch.setattr(train, "compile_network", lambda model: None)
    assert train_on_fake_gpu(replace(RECIPE, compile=True)).sent == train_on_fake_gpu(RECIPE).sent


def test_exact_float32_uses_channels_first_on_gpu_and_last_on_cpu():
    formats = {torch.channels_last: torch.device("cpu"), torch.contiguous_format: GPU}
    assert {choose_fastest_float32_layout(where): where for where in formats.values()} == formats
    with fake_gpu() as gpu:
        model = network().to(GPU).to(memory_format=torch.channels_last)
        predict_logits(model, make_inputs(), NORM, batch=8)
        assert all(parameter.is_contiguous() for parameter in model.parameters())
        assert gpu.channels_first == {True}
    assert train_on_fake_gpu(RECIPE).channels_first == {False}, "in bfloat16"


def test_predict_logits_waits_for_gpu_once():
    with fake_gpu() as gpu:
        model, tested = network().to(GPU), make_inputs()
        gpu.waits.clear()
        logits = predict_logits(model, tested, NORM, batch=8)
        assert (logits.device.type, tuple(logits.shape)) == ("cpu", (N, 4))
        assert gpu.waits == ["copy to cuda"] * 2 + ["copy to cpu"]  # mean, standard deviation; all logits


@pytest.mark.parametrize("controls", [False, True])
def test_shared_pass_maps_are_made_on_gpu(controls, monkeypatch):
    monkeypatch.setattr(Estimator, "shared_pass_settings", SharedPassSettings(samples=2, steps=3))
    estimators = [find_estimator(name) for name in ESTIMATORS if "corner" not in name]
    chosen = [e for e in estimators if e.has_own_map and e.control is controls and not e.has_own_passes]
    for variant in {e.explained_variant for e in chosen}:
        with fake_gpu() as gpu:
            model = None if controls else network().to(GPU).eval()
            images, labels = torch.zeros(4, *SHAPE), torch.arange(4)
            batch = Batch(images, labels, labels, images, ClassImages(images, images)).to(GPU)
            gpu.waits.clear()
            wanted = [e for e in chosen if e.explained_variant == variant]
            maps = compute_importance_maps(wanted, model, batch, torch.zeros(3, 1, 1))
            assert {(m.device.type, tuple(m.shape)) for m in maps.values()} == {("cuda", (4, *SHAPE))}
            assert set(maps) == {e.id for e in wanted}
            assert controls or gpu.waits.count("copy to cuda") == 1  # the black pixel
            assert controls or gpu.channels_first == {True}
            assert "copy to cpu" not in gpu.waits


@pytest.mark.parametrize("name", ["gradient-shap", "kernel-shap", "occlusion", "rise"])  # without captum and the graph
def test_maps_of_estimators_with_own_passes_are_made_on_gpu(name):
    brief = [text for text in ("samples=3", "patches=2") if text.split("=")[0] in ESTIMATORS[name].parameters]
    estimator = find_estimator(f"{name}({','.join(brief)})" if brief else name)
    with fake_gpu() as gpu:
        batch = Batch(torch.zeros(4, *SHAPE), torch.zeros(4, dtype=torch.int64), torch.arange(4)).to(GPU)
        model = network().to(GPU).eval()
        (importance,) = compute_importance_maps([estimator], model, batch, torch.zeros(3, 1, 1)).values()
        assert (importance.device.type, tuple(importance.shape)) == ("cuda", (4, *SHAPE))
        assert gpu.channels_first == {True}


def test_bit_planes_are_encoded_on_gpu_without_waiting():
    layout = Layout(SHAPE, Unit.SCALAR, PAPER_LEVELS)
    with fake_gpu() as gpu:
        keys = torch.zeros(4, layout.features, dtype=torch.int32, device=GPU)
        planes = map_ranking._encode_with_sorted_copy(keys, map_ranking._sort(keys), layout)
        shares = map_ranking.compute_largest_tie_shares(keys)
        assert planes.device.type == shares.device.type == "cuda"
        assert (tuple(planes.shape), planes.dtype) == ((4, layout.planes, layout.bytes_per_plane), torch.uint8)
        assert gpu.waits == []
