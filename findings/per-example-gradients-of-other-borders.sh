#!/usr/bin/env bash
# Guess: libraries for gradients of single examples and for curvature agree with autograd for every layer that they
#   accept; a convolution with `padding_mode="reflect"`, "replicate" or "circular" is right or refused.
# Behaviour: four libraries accept it and compute as if the border were black, without a warning: BackPACK 1.7.1
#   (`BatchGrad`), opacus 1.6.0 (`grad_sample`), nngeometry 0.4 (the diagonal of the mean of squared gradients) and
#   curvlinops 3.0.1 (EKFAC, whose trace is exact). For images of 7 by 7 pixels and a kernel of 3 the gradients of the
#   kernel are 46 to 47 % off, the diagonal 39 to 41 %, the trace of one image 23 to 29 %. With "zeros" all agree with
#   autograd. `weight.grad` of the same backward pass is right, so the examples' gradients do not add up to it.
# Cause: each unfolds the layer's input with `module.padding` and zeros, and none reads `module.padding_mode`.
# Why it matters: gradients of examples are the material of influence functions, TracIn, Fisher matrices, gradient
#   variances and clipped training; other borders are usual in segmentation and denoising. Small images and deep layers,
#   which are mostly border, are hit most.
# Versions: backpack-for-pytorch 1.7.1, opacus 1.6.0, nngeometry 0.4, curvlinops-for-pytorch 3.0.1, torch 2.13.0, numpy
#   2.4.6. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q backpack-for-pytorch==1.7.1 opacus==1.6.0 nngeometry==0.4 \
    curvlinops-for-pytorch==3.0.1 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from backpack import backpack, extend
from backpack.extensions import BatchGrad
from curvlinops import EKFACLinearOperator, GGNLinearOperator
from nngeometry.backend import TorchHooksJacobianBackend
from nngeometry.object import PMatDiag
from opacus import GradSampleModule
from torch.nn import Conv2d, CrossEntropyLoss, Flatten, Linear, Sequential, Tanh
from torch.utils.data import DataLoader, TensorDataset


def build(mode):
    """Return the same network with other borders."""
    torch.manual_seed(1)
    return Sequential(Conv2d(2, 3, 3, padding=1, padding_mode=mode), Tanh(), Flatten(), Linear(147, 3))


def compare(found, right):
    """Return the distance over the length of the right values."""
    return ((found - right).norm() / right.norm()).item()


torch.manual_seed(0)
images, classes = torch.rand(6, 2, 7, 7), torch.randint(0, 3, (6,))
loss = CrossEntropyLoss(reduction="sum")
for mode in ("zeros", "circular", "reflect", "replicate"):
    network = build(mode)
    losses = [loss(network(images[i : i + 1]), classes[i : i + 1]) for i in range(6)]
    right = torch.stack([torch.autograd.grad(each, network[0].weight)[0] for each in losses])

    extended = extend(build(mode))
    with backpack(BatchGrad()):
        extend(CrossEntropyLoss(reduction="sum"))(extended(images), classes).backward()
    assert compare(extended[0].weight.grad, right.sum(0)) < 1e-5

    sampled = GradSampleModule(build(mode), loss_reduction="sum")
    loss(sampled(images), classes).backward()
    weight = dict(sampled.named_parameters())["_module.0.weight"]
    assert compare(weight.grad, right.sum(0)) < 1e-5

    plain = build(mode)
    jacobian = TorchHooksJacobianBackend(
        model=plain,
        function=lambda inputs, targets: CrossEntropyLoss(reduction="none")(plain(inputs), targets)[:, None],
    )
    diagonal = PMatDiag(jacobian, examples=DataLoader(TensorDataset(images, classes), batch_size=6)).get_diag()

    plain = build(mode).double()
    image = [(images[:1].double(), classes[:1])]
    identity = torch.eye(right[0].numel(), dtype=torch.double)
    matrices = [kind(plain, loss, [plain[0].weight], image, **extra) @ identity for kind, extra in (
        (GGNLinearOperator, {}), (EKFACLinearOperator, {"fisher_type": "type-2"}))]
    errors = {
        "BackPACK": compare(extended[0].weight.grad_batch, right),
        "opacus": compare(weight.grad_sample, right),
        "nngeometry": compare(diagonal[: right[0].numel()], right.square().mean(0).flatten()),
        "curvlinops": abs(1 - (matrices[1].trace() / matrices[0].trace()).item()),
    }
    print(f"{mode}: relative errors {({name: f'{error:.2g}' for name, error in errors.items()})}")
    assert all((error < 1e-5) if mode == "zeros" else (error > 0.05) for error in errors.values()), "it changed"
PYTHON
