"""Gradients of images through strided convolutions equal torch's own."""

import pytest
import torch
from torch import nn

from roarbench.compute.networks import build_network, set_batch_norm_scales_to_one
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Batch
from roarbench.estimators.image_gradient import StridedConvolution, compute_image_gradient, speed_up_image_gradient
from roarbench.estimators.network_copies import fold_batchnorm


def draw(*shape, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


def test_gradient_of_one_weight_by_hand():
    """With stride 2 and padding 1, the middle weight of a 3 x 3 kernel connects output m with pixel 2 m."""
    weight, gradient = torch.zeros(1, 1, 3, 3), torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    weight[0, 0, 1, 1] = 10
    found = compute_image_gradient(gradient, weight, (2, 2), (1, 1))
    assert found[0, 0].tolist() == [[10, 0, 20, 0], [0, 0, 0, 0], [30, 0, 40, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "padding", "sides"),
    [
        (3, 5, 2, 2, (16, 12)),  # resnet-quick
        (3, 7, 2, 3, (16, 16)),  # more outputs after a square than before
        (4, 3, 2, 1, (8, 8)),
        (3, 4, 4, 0, (16, 8)),  # patches
        (1, 1, 2, 0, (8, 8)),  # three pixels of a square have no gradient
        (3, (5, 3), (2, 1), (2, 1), (12, 7)),
        (3, 7, 4, 3, (16, 16)),
        (3, 3, 3, 1, (9, 9)),
    ],
)
def test_gradient_equals_that_of_torch(channels, kernel, stride, padding, sides):
    layer = nn.Conv2d(channels, 8, kernel, stride, padding).double()
    images = draw(2, channels, *sides).requires_grad_()
    outputs = layer(images)
    gradient = draw(*outputs.shape)
    (expected,) = torch.autograd.grad(outputs, images, gradient)
    found = compute_image_gradient(gradient, layer.weight.detach(), layer.stride, layer.padding)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("side", [64, 63])
def test_network_has_same_logits_and_gradients(side):
    """The stride does not divide 63, so torch computes its gradient."""
    built = build_network("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(0)).eval()
    plain = fold_batchnorm(set_batch_norm_scales_to_one(built))
    fast = speed_up_image_gradient(fold_batchnorm(built))
    assert [type(module) for module in fast.modules()].count(StridedConvolution) == 1
    images = draw(4, 3, side, side, dtype=torch.float32).contiguous(memory_format=torch.channels_last).requires_grad_()
    logits, expected = fast(images), plain(images)
    assert torch.equal(logits, expected)
    (found,), (reference,) = (torch.autograd.grad(values.square().sum(), images) for values in (logits, expected))
    torch.testing.assert_close(found, reference, rtol=0, atol=1e-6 * reference.abs().max().item())


@pytest.mark.parametrize("name", ["input-x-grad", "gb-sq", "guided-gradcam", "deeplift", "sgsq-grad"])
def test_maps_equal_those_of_unchanged_network(name):
    """Guided backprop refuses unknown functions in the autograd graph."""
    built = set_batch_norm_scales_to_one(build_network("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(0)))
    images = draw(2, 3, 64, 64, dtype=torch.float32)
    batch, black = Batch(images, torch.arange(2), torch.arange(2)), torch.full((3, 1, 1), -2.0)
    networks = fold_batchnorm(built.eval()), speed_up_image_gradient(fold_batchnorm(built))
    expected, found = (compute_importance_maps([find_estimator(name)], net, batch, black)[name] for net in networks)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 * expected.abs().max().item())


def test_other_convolutions_are_left_alone():
    layers = [
        nn.Conv2d(3, 8, 3, 1),  # no stride
        nn.Conv2d(8, 8, 3, 2),  # many channels
        nn.Conv2d(4, 8, 3, 2, groups=2),
        nn.Conv2d(3, 8, 3, 2, dilation=2),
        nn.Conv2d(3, 8, 3, 2, padding=1, padding_mode="reflect"),
        nn.Conv2d(3, 8, 3, 2, padding="valid"),
    ]
    speed_up_image_gradient(nn.Sequential(*layers))
    assert {type(layer) for layer in layers} == {nn.Conv2d}


def compute_gradients_of_layer_and_fast_layer(dtype):
    """Return who made the fast gradient, and the gradients of both and in float64, from rounded weights and logits."""
    layer, images = nn.Conv2d(3, 8, 5, 2, 2), draw(2, 3, 16, 16, dtype=torch.float32).requires_grad_()
    weight, outputs = layer.weight.detach().to(dtype).double(), []
    for change in (lambda layer: layer, speed_up_image_gradient):
        with torch.autocast("cpu", dtype):
            outputs.append(change(layer)(images))
    assert torch.equal(*outputs)
    exact = torch.nn.grad.conv2d_input(images.shape, weight, 2 * outputs[0].detach().double(), 2, 2)
    found = [torch.autograd.grad(each.float().square().sum(), images)[0] for each in outputs]
    return outputs[1].grad_fn.name(), *found, exact


def test_bfloat16_gradient_is_the_exact_one_rounded_once():
    """That of torch is less exact on processors without AVX-512."""
    made_by, _, found, exact = compute_gradients_of_layer_and_fast_layer(torch.bfloat16)
    assert "StridedConvolve" in made_by
    torch.testing.assert_close(found.double(), exact, rtol=2**-7.99, atol=1e-6 * exact.abs().max().item())
    assert torch.equal(found, found.bfloat16().float())


def test_other_precisions_use_gradient_of_torch():
    _, expected, found, _ = compute_gradients_of_layer_and_fast_layer(torch.float16)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_image_without_axis_of_batch_has_same_outputs(dtype):
    layer = nn.Conv2d(3, 4, 3, 2, 1).to(dtype)
    images = draw(2, 3, 8, 8, dtype=dtype)
    expected = layer(images)
    speed_up_image_gradient(layer)
    torch.testing.assert_close(layer(images[0]), expected[0])
    torch.testing.assert_close(torch.vmap(layer)(images), expected)
