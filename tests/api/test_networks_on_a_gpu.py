"""Networks on a GPU: images move to the network's device, and float32 stays exact (see `fake_gpu`)."""

import pytest
import torch
from torch import nn

import roarbench as rb
from roarbench.api import explainers
from roarbench.api.explainers import (
    ExplainedBatch,
    Explainers,
    make_batch_per_network,
    split_into_batches,
)
from roarbench.api.read_explainers import read_explainers
from roarbench.api.score_maps import compute_logits
from tests.helpers.fake_gpu import GPU, fake_gpu
from tests.helpers.trainings import network


@pytest.mark.slow  # fake tensors import sympy
def test_images_move_to_device_of_each_network(monkeypatch):
    monkeypatch.setattr(explainers, "compute_image_seeds", lambda images: torch.arange(4))
    with fake_gpu():
        images, numbers = torch.zeros(4, 3, 16, 16), torch.arange(4)
        networks = [network().eval(), network().to(GPU).eval()]
        found = read_explainers(["grad", "sg-grad(samples=2)", "sobel", "rise(samples=2)"], images, 2)
        places = []
        for asked in make_batch_per_network(networks, images, numbers, numbers):
            maps = found._make_maps(found.built_in.values(), asked)
            places.append({each.device.type for each in (asked.images, asked.targets, *maps.values())})
    assert places == [{"cpu"}, {"cuda"}]


@pytest.mark.slow  # fake tensors import sympy
def test_gpu_networks_get_larger_batches_than_user_functions():
    """At 224 pixels a CPU explains two images at once and scores five."""
    with fake_gpu():
        images, scored = torch.zeros(70, 3, 224, 224), []
        for model, explained, at_once in ((network(), [2] * 35, 5), (network().to(GPU), [64, 6], 32)):
            parts = split_into_batches(images, [model])
            assert [part.stop - part.start for part in parts] == explained
            model.register_forward_hook(lambda module, inputs, logits: scored.append(len(logits)))
            scored.clear()
            compute_logits(model.eval(), images)
            assert (max(scored), sum(scored)) == (at_once, 70)
        asked = ExplainedBatch(0, model, images[:5], *(torch.arange(5) for _ in range(3)))
        seen = []
        mine = {"mine": lambda batch: seen.append(len(batch.ids)) or batch.images}
        zeros = torch.zeros(3, 1, 1)
        maps = Explainers(("mine",), {}, mine, zeros, zeros, {}).make_maps_in_calling_thread(asked)["mine"]
        assert (seen, tuple(maps.shape)) == ([2, 3], (5, 3, 224, 224))


class RecordsCudnnSettings(nn.Module):
    """A network that records the settings of cuDNN at every pass; a CPU has these settings, too."""

    seen = set()  # not an attribute of the network, which is restored after each use

    def __init__(self, seed):
        super().__init__()
        self.linear = nn.Linear(3 * 8 * 8, 4)
        nn.init.normal_(self.linear.weight, generator=torch.Generator().manual_seed(seed))

    def forward(self, images):
        flags = torch.backends.cudnn
        self.seen.add((flags.allow_tf32, flags.deterministic))
        return self.linear(images.flatten(1))

    def __deepcopy__(self, memo):  # a network on a GPU is not copied for threads
        raise RuntimeError("not copied")


@pytest.mark.filterwarnings("ignore:networks . and . (have 99.5 %|return nearly the same logits)")
@pytest.mark.parametrize(
    "work",
    [
        lambda models, images, labels: rb.check(models[0], images, labels, ["grad"], models[1:]),
        lambda models, images, labels: rb.own_network_gain(models, images, ["grad"]),
        lambda models, images, labels: rb.perturbation_curve(models[0], images, labels, images),
    ],
)
def test_api_functions_never_use_tf32(work):
    models, images = [RecordsCudnnSettings(seed) for seed in (0, 0, 0)], torch.randn(8, 3, 8, 8)
    RecordsCudnnSettings.seen.clear()
    work(models, images, torch.arange(8) % 4)
    assert models[0].seen == {(False, True)}
    assert torch.backends.cudnn.allow_tf32
