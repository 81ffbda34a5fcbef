"""Estimators with passes of their own: each derived again slowly, its cost counted, its chance repeated."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from roarbench.errors import RunError
from roarbench.estimators import SEED
from roarbench.estimators.base import Batch
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator
from roarbench.estimators.engine import importance_maps
from roarbench.estimators.families.cam import block_of, blocks_of
from roarbench.estimators.families.occlusion import count_squares, squares
from roarbench.estimators.noise import coalitions, mask_cells, noisy_copies, path_points
from roarbench.models.build import build
from roarbench.terms import Precision

BRIEF = {  # small enough to be derived by loops; 12 pixels a side
    "gradient-shap": "gradient-shap(noise=0.1,samples=3)",
    "occlusion": "occlusion(patches=4)",
    "kernel-shap": "kernel-shap(samples=20,patches=3)",
    "rise": "rise(samples=5,patches=3)",
}
NAMES = [BRIEF.get(name, name) for name, row in ESTIMATORS.items() if row.own_passes and not row.most_features]


def found(name: str, model: nn.Module, batch: Batch, black: Tensor) -> Tensor:
    return importance_maps([find_estimator(name)], model, batch, black)[name]


def logit(model: nn.Module, image: Tensor, target: int) -> float:
    """Of one image (c, h, w)."""
    with torch.no_grad():
        return model(image[None])[0, target].item()


def gradient(model: nn.Module, image: Tensor, target: int) -> Tensor:
    inputs = image[None].detach().clone().requires_grad_()
    return torch.autograd.grad(model(inputs)[0, target], inputs)[0][0]


def each(batch: Batch):
    return zip(batch.images, batch.targets.tolist(), batch.ids, strict=True)


def assert_near(one: Tensor, other: Tensor, share: float = 1e-9) -> None:
    """Float64 leaves 1e-16; sums over layers and samples lose some digits of the largest value."""
    torch.testing.assert_close(one, other.expand_as(one), rtol=0, atol=share * max(1e-3, other.abs().max().item()))


def test_gradient_shap(model, batch, black):
    slow = torch.zeros_like(batch.images)
    for row, (image, target, number) in enumerate(each(batch)):
        for j in range(3):
            noisy = noisy_copies(image[None], number[None], j, SEED, 0.1)[0]
            share = path_points(image[None], number[None], j, SEED).item()
            assert 0 <= share < 1
            slow[row] += (noisy - black) * gradient(model, black + share * (noisy - black), target) / 3
    assert_near(found(BRIEF["gradient-shap"], model, batch, black), slow)


def channels_and_gradient(model: nn.Module, image: Tensor, target: int) -> tuple[Tensor, Tensor]:
    """What the network's blocks put out, by its parts, and the gradient there; (k, a, b) each."""
    with torch.no_grad():
        out = model.blocks(model.relu(model.norm(model.conv(image[None]))))
    out.requires_grad_()
    (back,) = torch.autograd.grad(model.linear(out.mean((2, 3)))[0, target], out)
    return out[0].detach(), back[0]


def stretched(small: Tensor, side: int) -> Tensor:
    """Bilinear, half-pixel centres, the edge repeated; (a, b) to (side, side)."""
    (height, width), values = small.shape, small.tolist()
    out = [[0.0] * side for _ in range(side)]
    for i, j in itertools.product(range(side), repeat=2):
        y, x = (i + 0.5) * height / side - 0.5, (j + 0.5) * width / side - 0.5
        top, left = math.floor(y), math.floor(x)
        for row, col in itertools.product((top, top + 1), (left, left + 1)):
            weight = (1 - abs(y - row)) * (1 - abs(x - col))
            out[i][j] += weight * values[min(max(row, 0), height - 1)][min(max(col, 0), width - 1)]
    return torch.tensor(out, dtype=torch.float64)


def test_score_cam(model, batch, black):
    slow, batch = [], batch.part(slice(1, 2))
    for image, target, _ in each(batch):
        out, _ = channels_and_gradient(model, image, target)
        masks = [stretched(channel, image.shape[-1]) for channel in out]
        scores = [
            logit(model, image * (mask - mask.min()) / (mask.max() - mask.min()), target)
            if mask.max() > mask.min()
            else -math.inf
            for mask in masks
        ]
        weights = np.exp(np.array(scores) - max(scores))
        weights /= weights.sum()
        total = sum(weight * channel for weight, channel in zip(weights.tolist(), out, strict=True))
        slow.append(stretched(total.clamp(min=0), image.shape[-1]))
    assert_near(found("score-cam", model, batch, black), torch.stack(slow)[:, None])


def test_channels_without_a_shape_have_no_weight():
    model = nn.Sequential(nn.Sequential(nn.Conv2d(1, 2, 1), nn.Conv2d(2, 2, 1)), nn.Flatten(), nn.Linear(8, 2)).eval()
    for values in model[0].parameters():
        nn.init.ones_(values)
    flat = Batch(torch.ones(2, 1, 2, 2), torch.tensor([0, 1]), torch.tensor([0, 1]))
    assert (found("score-cam", model, flat, torch.zeros(1, 1, 1)) == 0).all()


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("resnet8", [f"blocks.{i}" for i in range(3)]),
        ("resnet50", [f"layer{layer}.{i}" for layer, count in enumerate((3, 4, 6, 3), 1) for i in range(count)]),
    ],
)
def test_blocks_of_a_resnet_are_its_residual_blocks(name, inside):
    network = build(name, 3, 3, 32, torch.Generator().manual_seed(0))
    names = {module: path for path, module in network.named_modules()}
    assert [names[block] for block in blocks_of(network)] == inside
    assert block_of(network, "last") is block_of(network, f"block{len(inside)}")


def test_layer_cam(model, batch, black):
    """Captum has the other two, see tests/oracles."""
    slow = []
    for image, target, _ in each(batch):
        pairs = zip(*channels_and_gradient(model, image, target), strict=True)
        total = sum(channel * slope.clamp(min=0) for channel, slope in pairs)
        slow.append(stretched(total.clamp(min=0), image.shape[-1]))
    assert_near(found("layer-cam", model, batch, black), torch.stack(slow)[:, None])


def test_squares_by_hand():
    assert squares(torch.zeros(1, 1, 4, 6), 3).tolist() == [
        [0, 0, 1, 1, 2, 2],
        [0, 0, 1, 1, 2, 2],
        [3, 3, 4, 4, 5, 5],
        [6, 6, 7, 7, 8, 8],
    ]
    assert squares(torch.zeros(1, 1, 2, 3), 8).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [count_squares(torch.zeros(1, 1, *size), 3) for size in ((4, 5), (2, 3))] == [9, 6]


def test_kernel_shap_is_exact_where_squares_do_not_act_together(batch, black):
    generator = torch.Generator().manual_seed(3)
    weights = torch.randn(5, 3 * 12 * 12, generator=generator, dtype=torch.float64)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 5).double()).eval()
    model[1].weight.data = weights
    own = (weights[batch.targets].view(batch.images.shape) * batch.images).sum(1)
    numbers = squares(batch.images, 3)
    expected = torch.stack([own[:, numbers == player].sum(1) for player in range(9)], 1)[:, numbers]
    assert_near(found("kernel-shap(samples=40,patches=3)", model, batch, black), expected[:, None], 1e-8)


def test_coalitions_follow_the_shapley_kernel():
    drawn = coalitions(5, 20_000, 0)
    assert drawn[:-1:2].tolist() == (~drawn[1::2]).tolist()
    sizes = np.bincount(drawn[::2].sum(1), minlength=6)[1:5]
    chances = np.array([1 / (size * (5 - size)) for size in (1, 2, 3, 4)])
    expected = 10_000 * chances / chances.sum()
    assert (abs(sizes - expected) < 4 * np.sqrt(expected)).all()  # four standard deviations
    assert (abs(drawn.mean(0) - 0.5) < 0.02).all()
    assert len(coalitions(4, 3, 0)) == 3


def test_rise(model, batch, black):
    masks = []
    for j in range(5):
        cells, (down, across) = mask_cells(4, j, SEED)
        assert set(np.unique(cells)) <= {0.0, 1.0}
        whole = stretched(torch.from_numpy(cells).double(), 16)  # 3 cells of 4 pixels, and one more
        top, left = int(down * 4), int(across * 4)
        masks.append(whole[top : top + 12, left : left + 12])
    slow = torch.zeros(len(batch.ids), 1, 12, 12, dtype=torch.float64)
    for row, (image, target, _) in enumerate(each(batch)):
        for mask in masks:
            with torch.no_grad():
                probability = model((image * mask)[None]).softmax(1)[0, target]
            slow[row, 0] += probability * mask / (5 * 0.5)
    assert_near(found(BRIEF["rise"], model, batch, black), slow)


def test_maps_are_float32_where_those_of_the_shared_pass_are_bf16(model, batch, black):
    name = "gradcam"
    short, images = copy.deepcopy(model).float(), batch._replace(images=batch.images.float())
    maps = importance_maps([find_estimator(name), find_estimator("grad")], short, images, black.float(), Precision.BF16)
    torch.testing.assert_close(maps[name], found(name, short, images, black.float()), rtol=0, atol=0)
    assert not torch.equal(maps["grad"], found("grad", short, images, black.float()))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_finds_the_maps_of_the_cpu(name, model, batch, black):
    short, images = copy.deepcopy(model).float(), batch._replace(images=batch.images.float())
    here = found(name, short, images, black.float())
    there = found(name, short.cuda(), images.to(torch.device("cuda")), black.float())
    torch.testing.assert_close(there.cpu(), here, rtol=0, atol=2e-4 * here.abs().max().item())


def perceptron() -> nn.Module:
    """A network without blocks, ReLUs and steps that DeepLIFT has rules for."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 8), nn.GELU(), nn.Linear(8, 5)).double().eval()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gradcam", "layer last is not there: the network has no block of two convolutions"),
        ("gradcam(layer=block4)", "layer block4 is not there: the network has blocks 1 to 3"),
        ("deeplift", "deeplift does not add up: it has no rule for a step that the network has; leave it out"),
        ("guided-gradcam", "guided-gradcam needs ReLUs"),
    ],
)
def test_a_network_without_what_is_needed_fails_the_row_in_one_line(name, words, model, batch, black):
    with pytest.raises(RunError, match=words) as caught:
        found(name, model if "block4" in name else perceptron(), batch, black)
    assert "\n" not in str(caught.value)
