"""Estimators with their own passes match slow derivations and reject unsuitable networks."""

import copy
import math
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import interpolate

from roarbench.common.errors import RunError
from roarbench.compute.networks import build_network
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.estimators.estimator import SEED, Batch
from roarbench.estimators.families.perturbation import assign_pixels_to_grid_squares, count_grid_squares
from roarbench.estimators.random_draws import (
    draw_coalitions,
    draw_path_positions,
    draw_rise_mask_cells,
    make_noisy_copies,
)
from tests.helpers.networks import assert_near, dense, importance
from tests.helpers.trainings import seeded

FEW = {"occlusion": "(patches=4)", "kernel-shap": "(samples=20,patches=3)", "rise": "(samples=5,patches=3)"}
NAMES = [name + FEW.get(name, "") for name, row in ESTIMATORS.items() if row.has_own_passes and not row.most_features]


def test_gradient_shap_matches_slow_sum(model, batch, black):
    slow = torch.zeros_like(batch.images)
    for j in range(3):
        noisy = make_noisy_copies(batch.images, batch.ids, j, SEED, 0.1)
        share = draw_path_positions(batch.images, batch.ids, j, SEED)
        assert ((share >= 0) & (share < 1)).all()
        point = (black + share * (noisy - black)).requires_grad_()
        total = model(point).gather(1, batch.targets[:, None]).sum()
        slow += (noisy - black) * torch.autograd.grad(total, point)[0] / 3
    assert_near(importance("gradient-shap(noise=0.1,samples=3)", model, batch, black), slow)


def compute_block_output(model, images):
    """Compute the output of the network's blocks, (n, k, a, b), from its parts."""
    return model.blocks(model.relu(model.norm(model.conv(images)))).detach()


def stretch_maps(maps, side=12):
    return interpolate(maps, (side, side), mode="bilinear")


def test_layer_cam_matches_formula(model, batch):
    """tests/oracles compares Grad-CAM and HiResCAM with captum."""
    channels = compute_block_output(model, batch.images).requires_grad_()
    logits = model.linear(channels.mean((2, 3))).gather(1, batch.targets[:, None])
    (slopes,) = torch.autograd.grad(logits.sum(), channels)
    total = (channels * slopes.clamp(min=0)).sum(1, keepdim=True).detach()
    assert_near(importance("layer-cam", model, batch), stretch_maps(total.clamp(min=0)))


@torch.no_grad()
def test_score_cam_matches_loop_over_channels(model, batch):
    for number, target in enumerate(batch.targets):
        one = batch.select_rows(slice(number, number + 1))
        channels, scores = compute_block_output(model, one.images), []
        for mask in stretch_maps(channels)[0]:
            shape = (mask - mask.min()) / (mask.max() - mask.min())
            scores.append(model(one.images * shape)[0, target] if mask.max() > mask.min() else torch.tensor(-math.inf))
        total = (torch.stack(scores).double().softmax(0)[:, None, None] * channels).sum(1, keepdim=True)
        assert_near(importance("score-cam", model, one), stretch_maps(total.clamp(min=0)))


class InShortFloats(nn.Module):
    """A convolution in bfloat16, as code for mixed precision has it, ReLU, and a linear layer."""

    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(0)
        self.dtype, self.convolution, self.linear = dtype, nn.Conv2d(3, 4, 3), nn.Linear(4, 5)

    def forward(self, images):
        with torch.autocast("cpu", self.dtype, enabled=self.dtype is not None):
            channels = self.convolution(images).relu()
        return self.linear(channels.mean((2, 3)).float())


@pytest.mark.parametrize("name", ["gradcam", "hires-cam", "layer-cam", "score-cam"])
def test_class_activation_maps_of_layers_in_bfloat16(name, batch):
    batch = batch._replace(images=batch.images.float())
    found, expected = (importance(name, InShortFloats(dtype).eval(), batch) for dtype in (torch.bfloat16, None))
    assert found.dtype == torch.float32
    assert_near(found, expected, 0.02)  # bfloat16 has 8 bits


def test_score_cam_ignores_constant_channels():
    model = nn.Sequential(nn.Sequential(nn.Conv2d(1, 2, 1), nn.Conv2d(2, 2, 1)), nn.Flatten(), nn.Linear(8, 2)).eval()
    for values in model[0].parameters():
        nn.init.ones_(values)
    flat = Batch(torch.ones(2, 1, 2, 2), torch.tensor([0, 1]), torch.tensor([0, 1]))
    assert (importance("score-cam", model, flat, torch.zeros(1, 1, 1)) == 0).all()


@pytest.mark.slow
def test_maps_of_compiled_network_equal_maps_of_eager_network(model, batch):
    """Compiled code lacks the rule of guided backprop, so the engine runs networks eagerly."""
    compiled = torch.compile(copy.deepcopy(model), backend="eager")
    for name in ("gb", "deeplift", "guided-gradcam"):
        torch.testing.assert_close(importance(name, compiled, batch), importance(name, model, batch), rtol=0, atol=0)


@pytest.mark.parametrize("sides", [(12, 12), (33, 20), (1, 30), (9, 100)])
def test_occlusion_gives_pixels_of_equal_effect_equal_values(sides):
    """Squares at the right and bottom edges, which a captum Occlusion cuts off, are as large as the others."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(sides), 2)).eval()
    nn.init.ones_(model[1].weight)
    flat = Batch(torch.ones(1, 1, *sides), torch.tensor([0]), torch.tensor([0]))
    maps = importance("occlusion", model, flat, torch.zeros(1, 1, 1))
    assert_near(maps, maps.mean().expand_as(maps))


def test_grid_squares_match_hand_made_numbering():
    assert assign_pixels_to_grid_squares(torch.zeros(1, 1, 4, 6), 3).tolist() == [
        [0, 0, 1, 1, 2, 2],
        [0, 0, 1, 1, 2, 2],
        [3, 3, 4, 4, 5, 5],
        [6, 6, 7, 7, 8, 8],
    ]
    assert assign_pixels_to_grid_squares(torch.zeros(1, 1, 2, 3), 8).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [count_grid_squares(torch.zeros(1, 1, *size), 3) for size in ((4, 5), (2, 3))] == [9, 6]


def test_kernel_shap_is_exact_for_additive_network(batch, black):
    weights = torch.randn(5, 3 * 12 * 12, generator=seeded(3), dtype=torch.float64)
    model = nn.Sequential(nn.Flatten(), dense(*weights.tolist())).double().eval()
    weights = model[1].weight.detach()
    own = (weights[batch.targets].view(batch.images.shape) * batch.images).sum(1)
    numbers = assign_pixels_to_grid_squares(batch.images, 3)
    expected = torch.stack([own[:, numbers == player].sum(1) for player in range(9)], 1)[:, numbers]
    assert_near(importance("kernel-shap(samples=40,patches=3)", model, batch, black), expected[:, None], 1e-8)


def test_coalition_sizes_follow_shapley_kernel():
    drawn = draw_coalitions(5, 20_000, 0)
    assert drawn[:-1:2].tolist() == (~drawn[1::2]).tolist()
    sizes = np.bincount(drawn[::2].sum(1), minlength=6)[1:5]
    chances = np.array([1 / (size * (5 - size)) for size in (1, 2, 3, 4)])
    expected = 10_000 * chances / chances.sum()
    assert (abs(sizes - expected) < 4 * np.sqrt(expected)).all()  # four standard deviations
    assert (abs(drawn.mean(0) - 0.5) < 0.02).all()
    assert len(draw_coalitions(4, 3, 0)) == 3


@torch.no_grad()
def test_rise_matches_slow_sum(model, batch, black):
    slow = torch.zeros(len(batch.ids), 1, 12, 12, dtype=torch.float64)
    for j in range(5):
        cells, (down, across) = draw_rise_mask_cells(4, j, SEED)
        assert set(np.unique(cells)) <= {0.0, 1.0}
        whole = stretch_maps(torch.from_numpy(cells).double()[None, None], 16)  # 3 cells of 4 pixels, and one more
        top, left = int(down * 4), int(across * 4)
        mask = whole[:, :, top : top + 12, left : left + 12]
        probability = model(batch.images * mask).softmax(1).gather(1, batch.targets[:, None])
        slow += probability[:, :, None, None] * mask / (5 * 0.5)
    assert_near(importance("rise(samples=5,patches=3)", model, batch, black), slow)


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_maps_on_gpu_match_cpu(name, model, batch, black):
    short, images = copy.deepcopy(model).float(), batch._replace(images=batch.images.float())
    here = importance(name, short, images, black.float())
    there = importance(name, short.cuda(), images.to(torch.device("cuda")), black.float())
    torch.testing.assert_close(there.cpu(), here, rtol=0, atol=2e-4 * here.abs().max().item())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gradcam", "no layer is suitable: no tensor with several positions lies on every path"),
        ("gradcam(layer=block4)", "layer block4 does not exist: the network has blocks 1 to 3; use layer=last"),
        (
            "deeplift",
            "deeplift's contributions do not add up, because it lacks a rule for an operation of the network; "
            "leave deeplift out",
        ),
        ("guided-gradcam", "guided-gradcam needs ReLUs"),
        ("shapley", "shapley supports at most 16 features, got 432; leave shapley out"),
    ],
)
def test_estimator_rejects_network_that_lacks_required_layers(name, words, model, batch, black):
    torch.manual_seed(0)
    bare = nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 8), nn.GELU(), nn.Linear(8, 5)).double().eval()
    with pytest.raises(RunError, match=words) as caught:
        importance(name, model if "block4" in name else bare, batch, black)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "start"), [("shapley", 0.0), ("shapley(baseline=black)", -2.0)])
@torch.no_grad()
def test_shapley_values_equal_mean_contribution_over_all_orders(name, start):
    model = build_network("mlp", 3, 4, 1, seeded(0)).eval().double()
    images, targets = torch.randn(3, 4, 1, 1, generator=seeded(1), dtype=torch.float64), torch.tensor([0, 2, 1])
    expected = torch.zeros_like(images)
    for order in permutations(range(4)):
        shown = torch.full_like(images, start)
        for feature in order:
            before = model(shown)
            shown[:, feature] = images[:, feature]
            expected[:, feature, 0] += (model(shown) - before).gather(1, targets[:, None]) / math.factorial(4)
    found = importance(name, model, Batch(images, targets, torch.arange(3)))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_shapley_values_of_several_batches_add_up_in_float32():
    model = build_network("mlp", 2, 10, 1, seeded(0)).eval()
    images, targets = torch.randn(3, 10, 1, 1, generator=seeded(1)), torch.tensor([0, 1, 0])
    gap = (model(images) - model(torch.zeros_like(images))).gather(1, targets[:, None])[:, 0]
    found = importance("shapley", model, Batch(images, targets, torch.arange(3)))
    torch.testing.assert_close(found.flatten(1).sum(1), gap, rtol=0, atol=1e-5)
