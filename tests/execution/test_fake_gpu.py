"""CUDA's branches on a GPU that holds no numbers, see `fake_gpu`: all tensors of a training and of maps lie on it."""

import pytest
import torch

from roarbench.estimators import engine
from roarbench.estimators.base import Batch, Settings
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator
from roarbench.estimators.engine import importance_maps
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Normalisation
from roarbench.kernels.scoring import predict
from roarbench.kernels.train import fit
from roarbench.models.build import build
from roarbench.plan.recipe import Augmentation, Decay, Recipe
from roarbench.terms import Unit
from tests.helpers.fake_gpu import GPU, fake_gpu

NORM = Normalisation((120.0,) * 3, (60.0,) * 3)
RECIPE = Recipe("test", 1, 0.8, 8, 0.05, 0, Decay.LINEAR, Augmentation.CROP_FLIP, micro_batch=3, sides=(0.5, 1.0))
N, SHAPE = 20, (3, 16, 16)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def network(name="resnet-planted"):
    return build(name, 4, 3, 16, seeded()).to(GPU)


@pytest.mark.slow
def test_a_network_is_trained_and_asked_on_the_gpu():
    with fake_gpu():
        pixels = torch.zeros(N, *SHAPE, dtype=torch.uint8, device=GPU)
        removed = torch.zeros(N, 96, dtype=torch.uint8, device=GPU)
        inputs, model = DegradedImages(pixels, removed, torch.zeros(3, device=GPU), Unit.SCALAR), network()
        fit(model, inputs, torch.arange(N) % 4, NORM, RECIPE, seed=1)
        logits = predict(model, inputs, NORM, batch=8)
        assert (logits.device.type, tuple(logits.shape)) == ("cpu", (N, 4))


@pytest.mark.parametrize("controls", [False, True])
def test_maps_are_made_on_the_gpu(controls, monkeypatch):
    monkeypatch.setattr(engine, "settings_of", lambda estimator: Settings(samples=2, steps=3))
    chosen = [e for e in map(find_estimator, ESTIMATORS) if e.mapped and e.control is controls and not e.own_passes]
    for variant in {e.variant for e in chosen}:
        with fake_gpu():
            model = None if controls else network().eval()
            images = torch.zeros(4, *SHAPE)
            labels = torch.arange(4)
            batch = Batch(images, torch.zeros(4, dtype=torch.int64), torch.arange(4), images, labels).to(GPU)
            wanted = [e for e in chosen if e.variant == variant]
            maps = importance_maps(wanted, model, batch, torch.zeros(3, 1, 1))
            assert {(m.device.type, tuple(m.shape)) for m in maps.values()} == {("cuda", (4, *SHAPE))}
            assert set(maps) == {e.id for e in wanted}


@pytest.mark.parametrize(
    "name", ["gradient-shap", "layer-cam", pytest.param("score-cam", marks=pytest.mark.slow), "kernel-shap", "rise"]
)  # without captum
def test_maps_by_passes_of_their_own_are_made_on_the_gpu(name):
    brief = {"samples": "3", "patches": "2"}
    values = ",".join(f"{key}={brief[key]}" for key in ("samples", "patches") if key in ESTIMATORS[name].parameters)
    estimator = find_estimator(f"{name}({values})" if values else name)
    with fake_gpu():
        batch = Batch(torch.zeros(4, *SHAPE), torch.zeros(4, dtype=torch.int64), torch.arange(4)).to(GPU)
        (importance,) = importance_maps([estimator], network().eval(), batch, torch.zeros(3, 1, 1)).values()
        assert (importance.device.type, tuple(importance.shape)) == ("cuda", (4, *SHAPE))
