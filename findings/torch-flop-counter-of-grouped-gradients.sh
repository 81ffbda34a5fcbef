#!/usr/bin/env bash
# Guess: a convolution's backward pass takes twice the operations of its forward pass, one for the gradient of the image
#   and one for that of the weights, and `FlopCounterMode` of torch says so for every convolution.
# Behaviour: with torch 2.13.0, for a depthwise convolution of C channels it counts 1 + C times the forward pass: 9 times
#   for 8 channels, 97 times for 96. For ordinary convolutions it is 2. A small network of depthwise and pointwise
#   convolutions, as mobile networks have, has 17 instead of 2 times the forward operations in its backward pass.
# Cause: `conv_backward_flop` (torch/utils/flop_counter.py) counts the gradient of the weights as a convolution of the
#   exchanged shapes, whose weights have all channels; it does not divide by `groups`. Pull request 183405 of
#   pytorch/pytorch (2026) mentions it.
# Why it matters: plans, prices and speeds (operations a second) of training and of gradient methods are made of these
#   counts. By them, a mobile network is as expensive to train as one six times its size.
# Versions: torch 2.13.0 (CPU).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def divide_backward_by_forward(network, channels):
    images = torch.rand(2, channels, 16, 16, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        outputs = network(images)
    with FlopCounterMode(display=False) as backward:
        outputs.sum().backward()
    return backward.get_total_flops() / forward.get_total_flops()


ordinary = divide_backward_by_forward(nn.Conv2d(8, 8, 3, padding=1), 8)
depthwise = {n: divide_backward_by_forward(nn.Conv2d(n, n, 3, padding=1, groups=n), n) for n in (8, 96)}
block = [nn.Conv2d(96, 96, 3, padding=1, groups=96), nn.ReLU(), nn.Conv2d(96, 24, 1), nn.Conv2d(24, 96, 1)]
mobile = divide_backward_by_forward(nn.Sequential(*block, *block), 96)
print(f"backward / forward: ordinary {ordinary:.1f}, depthwise {depthwise}, mobile block {mobile:.1f}")
assert ordinary == 2
assert depthwise == {8: 9, 96: 97}, "the behaviour changed"
assert mobile > 10
PYTHON
