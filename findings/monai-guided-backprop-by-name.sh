#!/usr/bin/env bash
# Guess: MONAI's GuidedBackpropGrad changes the backward pass of each ReLU module, at least in MONAI's own networks, and
#   refuses a network in which it finds none.
# Behaviour: with MONAI 1.6.1 modules are found by the letters "relu" in their *names*. MONAI's ResNet calls its ReLUs
#   "act": the result is its plain gradient, bit for bit (DenseNet calls them "relu1": right). A module with the
#   letters in its name becomes a ReLU, whatever it is: `leaky_relu` and `prelu` lose their slopes, so the map is that
#   of another network. Nothing warns.
# Cause: `replace_modules_temp(self.model, "relu", _GradReLU(), strict_match=False)` (monai/visualize/gradient_based.py).
# Why it matters: a comparison of the gradient and guided backprop finds both equal, or shows the map of a network that
#   nobody trained. GuidedBackpropSmoothGrad does the same.
# Versions: monai 1.6.1, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import copy
from collections import OrderedDict

import torch
from monai.networks.nets import DenseNet121, resnet18
from monai.visualize import GuidedBackpropGrad
from torch import nn


class Guided(nn.ReLU):
    def forward(self, values):
        result = values.clamp(min=0)
        if result.requires_grad:
            result.register_hook(lambda gradient: gradient.clamp(min=0))
        return result


def make(name, layer):
    layers = [nn.Conv2d(1, 8, 3), layer, nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6272, 3)]
    return nn.Sequential(OrderedDict(zip(("first", name, "second", "relu", "flatten", "last"), layers))).eval()


def explain_by_hand(network, guided):
    network = copy.deepcopy(network)
    for path, module in list(network.named_modules()) if guided else []:
        if type(module) is nn.ReLU:
            network.set_submodule(path, Guided())
    inputs = image.clone().requires_grad_()
    return torch.autograd.grad(network(inputs)[0, 1], inputs)[0]


torch.manual_seed(0)
image = torch.rand(1, 1, 32, 32)
networks = {
    "MONAI's DenseNet121": DenseNet121(2, 1, 3).eval(),
    "MONAI's resnet18": resnet18(spatial_dims=2, n_input_channels=1, num_classes=3).eval(),
    "leaky_relu": make("leaky_relu", nn.LeakyReLU(0.5)),
    "prelu": make("prelu", nn.PReLU(init=0.5)),
}
for name, network in networks.items():
    found = torch.as_tensor(GuidedBackpropGrad(network)(image.clone(), index=1))
    guided, plain = explain_by_hand(network, True), explain_by_hand(network, False)
    scale = guided.abs().max()
    to_guided, to_plain = (float((found - each).abs().max() / scale) for each in (guided, plain))
    print(f"{name}: {to_guided:.2f} from guided backprop, {to_plain:.2f} from the gradient, in units of its maximum")
    if name == "MONAI's DenseNet121":
        assert to_guided < 1e-4 < to_plain, "the reference changed"
    elif name == "MONAI's resnet18":
        assert torch.equal(found, plain) and to_guided > 0.1, "the behaviour changed"
    else:
        assert to_guided > 0.1, "the behaviour changed"
        other = copy.deepcopy(network)
        other.set_submodule(name, nn.ReLU())
        torch.testing.assert_close(found, explain_by_hand(other, True), msg="the behaviour changed")
PYTHON
