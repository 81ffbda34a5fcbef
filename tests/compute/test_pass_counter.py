"""Passes are counted in whatever way code calls a network; where work cannot be counted, the count is unknown."""

import copy
import os
import subprocess
import sys
import threading
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.nn import functional as F

from roarbench.compute.networks import build_network
from roarbench.compute.pass_counter import PassCounter
from tests.helpers.networks import CountingPasses

N, CLASSES = 4, 3


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    hidden = [nn.Conv2d(3, 5, 3, padding=1), nn.SiLU(), nn.Conv2d(5, 4, 3, stride=2), nn.AdaptiveAvgPool2d(2)]
    return nn.Sequential(*hidden, nn.Flatten(), nn.Linear(16, CLASSES)).eval()


@pytest.fixture(scope="module")
def images():
    return torch.randn(N, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def explain(model, images, **options):
    inputs = images.clone().requires_grad_()
    return torch.autograd.grad(model(inputs)[:, 0].sum(), inputs, **options)[0]


def call_backward(model, images):
    """Gradients of the weights, too, are part of one backward pass."""
    model(images.clone().requires_grad_()).sum().backward()
    model.zero_grad()


def call_layers(model, images):
    explain(lambda inputs: [inputs := layer(inputs) for layer in model][-1], images)


def use_weights(model, images):
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            images = F.conv2d(images, layer.weight, layer.bias, layer.stride, layer.padding)
        else:
            images = layer(images)


def use_threads(model, images):
    threads = [threading.Thread(target=explain, args=(model, images)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def count(network, images, call):
    counter = PassCounter(network, images[:1])
    with counter.count():
        call(network, images)
    return counter.read_passes()


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own rules of `jvp` are scripts
@pytest.mark.parametrize(
    ("call", "forward", "backward"),
    [
        (explain, N, N),
        (call_backward, N, N),
        (torch.no_grad()(lambda m, x: m(x)), N, 0),
        (torch.inference_mode()(lambda m, x: m(x)), N, 0),
        (lambda m, x: explain(m.forward, x), N, N),
        (lambda m, x: explain(copy.deepcopy(m), x), N, N),
        (lambda m, x: explain(lambda y: functional_call(m, dict(m.named_parameters()), (y,)), x), N, N),
        (lambda m, x: explain(nn.Sequential(*m.children()), x), N, N),
        (lambda m, x: torch.fx.symbolic_trace(m)(x), N, 0),
        (call_layers, N, N),
        (use_weights, N, 0),
        (use_threads, 3 * N, 3 * N),
        # torch imports its compiler for `vmap`, which takes up to 20 s
        pytest.param(lambda m, x: vmap(grad(lambda y: m(y[None])[0, 0]))(x), N, N, marks=pytest.mark.soak),
        pytest.param(lambda m, x: jacrev(lambda y: m(y[None])[0])(x[0]), 1, CLASSES, marks=pytest.mark.soak),
        (lambda m, x: jvp(m, (x,), (x,)), 2 * N, 0),
        (lambda m, x: F.conv2d(x, torch.ones(3, 1, 11, 11), groups=3), 0, 0),
        (lambda m, x: None, 0, 0),
    ],
)
def test_passes_are_counted_however_network_is_called(network, images, call, forward, backward):
    assert count(network, images, call) == (forward, backward)


def test_part_of_network_is_its_share_of_the_work(network, images):
    """By hand: 135 multiply-adds for each of 5 * 256 values, 45 for each of 4 * 49, and 16 for each of 3."""
    work = [27 * 5 * 256, 45 * 4 * 49, 16 * 3]
    forward, backward = count(network, images, lambda m, x: m[:3](x))
    assert forward == pytest.approx(N * sum(work[:2]) / sum(work), rel=1e-12) and backward == 0

    def explain_last_layers(model, images):
        """Like Grad-CAM: gradients with respect to the output of the first convolution."""
        activations = model[0](images).detach().requires_grad_()
        torch.autograd.grad(model[1:](activations).sum(), activations)

    forward, backward = count(network, images, explain_last_layers)
    assert forward == N
    assert backward == pytest.approx(N * sum(work[1:]) / sum(work), rel=1e-12)


def test_second_derivative_counts_layers_that_it_computes(network, images):
    """The backward pass, its derivative, and the backward pass of the latter."""

    def multiply_by_hessian(model, images):
        inputs = images.clone().requires_grad_()
        (first,) = torch.autograd.grad(model(inputs)[:, 0].square().sum(), inputs, create_graph=True)
        torch.autograd.grad((first * images).sum(), inputs)

    assert count(network, images, multiply_by_hessian) == (N, 3 * N)


def batch_gradients(model, images):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).sum(0)
    torch.autograd.grad(logits, inputs, torch.eye(CLASSES), is_grads_batched=True)


def fork(_network, _images):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def start_program(code):
    return lambda _network, _images: subprocess.run([sys.executable, "-S", "-c", code], check=True)


def replace_function(_network, _images):
    F.conv2d = torch._C._VariableFunctions.conv2d


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: torch.jit.trace(m, x, check_trace=False)(x),
        lambda m, x: torch.jit.script(m)(x),
        batch_gradients,
        fork,
        start_program("import time\nwhile time.process_time() < 0.3: pass"),
        replace_function,
    ],
)
def test_count_is_unknown_where_work_cannot_be_counted(network, images, call):
    original = F.conv2d
    assert count(network, images, call) is None
    assert F.conv2d is original


def test_program_too_short_to_explain_does_not_hide_count(network, images):
    assert count(network, images, start_program("pass")) == (0, 0)


@pytest.mark.parametrize("name", ["resnet-quick", "vit-quick", "convnext-quick"])
@pytest.mark.parametrize("context", [nullcontext, torch.no_grad])
def test_counting_changes_no_bit_and_agrees_with_calls_of_whole_network(name, context):
    """A transformer runs fused without gradients, so both modes are compared with a count of whole calls."""
    model = build_network(name, 10, 3, 64, torch.Generator().manual_seed(0)).eval()
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    calls = CountingPasses(model)
    use = partial(explain, calls) if context is nullcontext else torch.no_grad()(calls)
    without = use(images)
    calls.forwards = calls.backwards = 0
    counter = PassCounter(model, images[:1])
    with counter.count():
        torch.testing.assert_close(use(images), without, rtol=0, atol=0)
    assert counter.read_passes() == (calls.forwards, calls.backwards) != (0, 0)
