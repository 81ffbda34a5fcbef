#!/usr/bin/env bash
# Guess: a forward hook sees what a layer returns, so `ReLU(inplace=True)` behind the layer of Grad-CAM changes no map.
# Behaviour: with grad-cam 1.5.7 and torchcam 0.5.0 it does: their hooks keep the layer's own memory, into which the ReLU
#   writes later, so activations after the ReLU meet gradients before it. Here maps correlate by .71 and .63 with those
#   of `inplace=False`. captum 0.9.0 copies the output: its maps are equal.
# Cause: `activation.cpu().detach()` (pytorch_grad_cam/activations_and_gradients.py) copies on a GPU and not on a CPU, so
#   by the source one network has two maps on two devices; `output.data` (torchcam/methods/core.py) never copies.
# Why it matters: the last convolutions of VGG, AlexNet and SqueezeNet are followed by `ReLU(inplace=True)`.
# Versions: grad-cam 1.5.7, torchcam 0.5.0, captum 0.9.0, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 torchvision==0.28.0 numpy==2.4.6 grad-cam==1.5.7 torchcam==0.5.0 \
    captum==0.9.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import numpy as np
import torch
from torch import nn

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from captum.attr import LayerGradCam
from pytorch_grad_cam import GradCAM
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from torchcam.methods import GradCAM as TorchCam


def build(inplace):
    torch.manual_seed(0)
    first, last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
    head = (nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 5))
    return nn.Sequential(first, nn.ReLU(), last, nn.ReLU(inplace=inplace), *head).eval()


def explain_by_grad_cam(network):
    with GradCAM(model=network, target_layers=[network[2]]) as cam:
        return cam(input_tensor=image, targets=[ClassifierOutputTarget(1)])


def explain_by_torchcam(network):
    with TorchCam(network, target_layer=network[2]) as cam:
        return cam(1, network(image.clone().requires_grad_()))[0].numpy()


def explain_by_captum(network):
    return LayerGradCam(network, network[2]).attribute(image, 1).detach().numpy()


image = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
assert torch.equal(build(False)(image), build(True)(image))
for explain, expected in ((explain_by_grad_cam, False), (explain_by_torchcam, False), (explain_by_captum, True)):
    plain, inplace = explain(build(False)), explain(build(True))
    correlation = np.corrcoef(plain.ravel(), inplace.ravel())[0, 1]
    print(f"{explain.__name__}: correlation of the maps of two equal networks {correlation:.2f}")
    assert bool(np.allclose(plain, inplace)) == expected, "the behaviour changed"
PYTHON
