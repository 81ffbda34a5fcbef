#!/usr/bin/env bash
# Guess: MONAI's SmoothGrad averages the gradients of noisy images, so more samples only lower the noise of a map, and
#   without noise it is the gradient.
# Behaviour: with MONAI 1.6.1 a map has no signs, and its size falls with the root of the number of samples: with 100
#   samples, values are half of those with 25. Without noise it is the absolute gradient over that root.
# Cause: `magnitude=True`, the default, adds up squares, takes the root of their *sum* and then divides by the number of
#   samples (`SmoothGrad.__call__`, monai/visualize/gradient_based.py); a root mean square needs the mean first.
# Why it matters: maps with different samples are on different scales, so a shared threshold, colour scale or stopping
#   rule ("add samples until the map stays") follows the count: maps shrink for ever. GuidedBackpropSmoothGrad is alike.
# Versions: monai 1.6.1, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from monai.visualize import SmoothGrad
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Tanh(), nn.Flatten(), nn.Linear(1568, 5)).eval()
image = torch.rand(1, 1, 16, 16)
inputs = image.clone().requires_grad_()
gradient = torch.autograd.grad(network(inputs)[0, 1], inputs)[0]
for spread in (0, 0.15):
    sizes = []
    for samples in (25, 100, 400):
        explain = SmoothGrad(network, stdev_spread=spread, n_samples=samples, verbose=False)
        found = torch.as_tensor(explain(image, index=1)).detach()
        if not spread:
            torch.testing.assert_close(found, gradient.abs() / samples**0.5, msg="the behaviour changed")
        sizes.append(float(found.mean()))
    print(f"noise {spread}: mean of a map {', '.join(f'{size:.5f}' for size in sizes)} for 25, 100, 400 samples")
    assert abs(sizes[0] / sizes[1] - 2) < 0.1 and abs(sizes[1] / sizes[2] - 2) < 0.1, "the behaviour changed"
averaged = SmoothGrad(network, n_samples=400, magnitude=False, verbose=False)(image, index=1)
assert (torch.as_tensor(averaged) - gradient).abs().mean() < 0.1 * gradient.abs().mean(), "the mean changed"
PYTHON
