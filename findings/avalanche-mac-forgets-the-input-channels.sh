#!/usr/bin/env bash
# Guess: `MAC` of Avalanche counts the multiplications of convolutions and linear layers for one image, a "lower bound of
#   the computational cost", so a network of depthwise convolutions costs a fraction of one of plain convolutions.
# Behaviour: with avalanche-lib 0.6.0 a convolution of 256 to 256 channels costs as much as one of 1 to 256. A network of
#   four plain convolutions has 6.5 million multiplications, .007 of its 983 million; with depthwise convolutions, which need
#   .12 of that, it has .75 of the plain one's. The two linear layers of a block of ViT-Tiny have 77,618 in place of 58
#   million. One linear layer for one vector is right.
# Cause: `update_compute_cost` (avalanche/evaluation/metrics/mac.py) multiplies outputs by the kernel's size and not by the
#   channels that each output reads; of a linear layer it multiplies `shape[1]` of input and output, which are the
#   tokens if there is a third dimension.
# Why it matters: the cost is a column of comparisons in continual learning, beside accuracy and forgetting, for networks
#   that grow. Growth in width counts once where it costs twice, and compact networks lose.
# Versions: avalanche-lib 0.6.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 pillow==13.0.0 matplotlib==3.11.2
"$folder/venv/bin/pip" install -q --no-deps avalanche-lib==0.6.0 # the rest of what it names serves training
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

base = importlib.util.find_spec("avalanche").submodule_search_locations[0]
for name in ("", "/evaluation/metrics"):  # without training and other metrics, which the packages' first files import
    package = types.ModuleType("avalanche" + name.replace("/", "."))
    package.__path__ = [base + name]
    sys.modules[package.__name__] = package
from avalanche.evaluation.metrics.mac import MAC


def count(network, image):
    """Return the multiplications by Avalanche and by torch's counter, which gives additions as well."""
    metric = MAC()
    metric.update(network, image)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(image)
    return metric.result(), counter.get_total_flops() // 2


def stack(depthwise):
    layers = []
    for one, two in ((3, 64), (64, 128), (128, 256), (256, 256)):
        if depthwise:
            layers += [nn.Conv2d(one, one, 3, padding=1, groups=one), nn.Conv2d(one, two, 1)]
        else:
            layers += [nn.Conv2d(one, two, 3, padding=1)]
    return nn.Sequential(*layers)


image = torch.zeros(1, 3, 32, 32)
cases = {
    "plain convolutions": (stack(False), image),
    "depthwise convolutions": (stack(True), image),
    "1 to 256 channels": (nn.Conv2d(1, 256, 3, padding=1), image[:, :1]),
    "256 to 256 channels": (nn.Conv2d(256, 256, 3, padding=1), image[:, :1].expand(-1, 256, -1, -1)),
    "a block of ViT-Tiny": (nn.Sequential(nn.Linear(192, 768), nn.GELU(), nn.Linear(768, 192)), torch.zeros(1, 197, 192)),
    "linear, one vector": (nn.Linear(192, 768), torch.zeros(1, 192)),
}
counts = {name: count(*case) for name, case in cases.items()}
for name, (found, true) in counts.items():
    print(f"{name:23} {found:11,} multiplications; by torch {true:13,}; share {found / true:.4f}")
assert counts["linear, one vector"][0] == counts["linear, one vector"][1]
assert counts["depthwise convolutions"][1] < 0.15 * counts["plain convolutions"][1]
assert counts["depthwise convolutions"][0] > 0.7 * counts["plain convolutions"][0], "the behaviour changed"
assert counts["256 to 256 channels"][0] == counts["1 to 256 channels"][0] and counts["a block of ViT-Tiny"][0] == 2 * 197**2
PYTHON
