#!/usr/bin/env bash
# Guess: zennit's attributors take one `attr_output`, so the one-hot tensor that chooses a class for `Gradient` chooses
#   it for `Occlusion`; and a window at the border ends at the border.
# Behaviour: with zennit 0.5.1 Occlusion with a tensor returns a map that says how many windows cover each pixel: 1, 2
#   and 4, whatever the image, the class and the network are. With a function of the output it is a map of the network,
#   but windows at the right and lower borders continue at the left and upper ones: of 28 pixels with the default window
#   and stride of 8, the first four rows and columns are counted twice, together with the opposite ones.
# Cause: `Occlusion.forward` (zennit/attribution.py) takes the score from `attr_output_fn(output)`, which is the tensor
#   itself if a tensor is given, and moves windows by `roll`.
# Why it matters: 28 pixels are MNIST, Fashion-MNIST and MedMNIST. The map of counts is not flat, so it can be ranked and
#   scored like any other: it calls the upper left corner most important.
# Versions: zennit 0.5.1, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q zennit==0.5.1 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
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

from zennit.attribution import Gradient, Occlusion

images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
counts = torch.ones(28)
counts[:4] = 2
counts = counts[:, None] * counts


def build(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 5)).eval()


for seed in (0, 1):
    for label in (0, 3):
        network, one_hot = build(seed), torch.eye(5)[[label]]
        weights = network[1].weight[label].detach().reshape(28, 28)
        _, gradient = Gradient(network, attr_output=one_hot.repeat(2, 1))(images)
        assert torch.allclose(gradient[0, 0], weights), "the tensor chooses no class of Gradient, either"
        _, found = Occlusion(network, attr_output=one_hot)(images)
        constant = torch.equal(found[:, 0], counts.repeat(2, 1, 1))
        print(f"network {seed}, class {label}: values {found.unique().tolist()}, counts of windows: {constant}")
        assert constant, "the behaviour changed"

_, found = Occlusion(network, attr_output=lambda output: output * one_hot)(images)
continued = torch.zeros(28, 28)
for row in range(0, 28, 8):
    for column in range(0, 28, 8):
        window = torch.zeros(28, 28)
        window[np.ix_(np.arange(row, row + 8) % 28, np.arange(column, column + 8) % 28)] = 1
        continued += window * network(images[:1] * window)[0, label].detach()
assert torch.allclose(found[0, 0], continued, atol=1e-5), "the behaviour changed"
print("a function gives a map of the network, with windows that continue at the opposite border")
PYTHON
