#!/usr/bin/env bash
# Guess: VarGrad is the variance of the gradient over noisy copies of an image: never negative, and 0 for a linear network,
#   whose gradient is the same everywhere.
# Behaviour: with pnpxai 0.1.4 it is the mean square minus the mean, and not minus the square of the mean. For a linear
#   network it is w * w - w; half of the values are negative. Gradients of images are far below 1, so maps are those of
#   SmoothGrad with the other sign: for a network with tanh they correlate by -1.00 with SmoothGrad, and by .00 with
#   captum's VarGrad. Logits times 1000 bring another map, the mean square.
# Cause: `avg_grad_sq - avg_grad` in `VarGrad.attribute` (pnpxai/explainers/var_grad.py).
# Why it matters: the pixels that speak most against a class rank first. Two rows of a table, of which one is the other
#   upside down, look like two estimators.
# Versions: pnpxai 0.1.4, zennit 0.5.1, captum 0.9.0, timm 1.0.31, transformers 5.24.0, torch 2.13.0, torchvision 0.28.0,
#   numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pnpxai==0.1.4 zennit==0.5.1 captum==0.9.0 timm==1.0.31 transformers==5.24.0 \
  torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from captum.attr import NoiseTunnel, Saliency
from pnpxai.explainers import SmoothGrad, VarGrad
from torch import nn


def correlate(a, b):
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])


torch.manual_seed(0)
images = torch.rand(8, 3, 32, 32)
linear = nn.Sequential(nn.Flatten(), nn.Linear(3072, 5)).eval()
classes = linear(images).argmax(1)
found = VarGrad(linear).attribute(images, classes).detach()
weights = linear[1].weight[classes].view_as(images).detach()
torch.testing.assert_close(found, weights**2 - weights, rtol=0, atol=1e-6, msg="the behaviour changed")
negative = float((found < 0).float().mean())
print(f"linear network: values up to {found.abs().max():.3f}, {100 * negative:.0f} % negative")
assert negative > 0.4, "the behaviour changed"

network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Tanh(), nn.Flatten(), nn.Linear(7200, 5)).eval()
classes = network(images).argmax(1)
settings = {"noise_level": 0.3, "n_iter": 50}
found = VarGrad(network, **settings).attribute(images, classes).detach()
smooth = SmoothGrad(network, **settings).attribute(images, classes).detach()
tunnel = NoiseTunnel(Saliency(network))
variance = tunnel.attribute(images, nt_type="vargrad", nt_samples=50, stdevs=0.3, target=classes, abs=False)
negated, related = correlate(found, smooth), correlate(found, variance)
print(f"correlation with SmoothGrad {negated:.2f}, with captum's VarGrad {related:.2f}")
assert negated < -0.99 and abs(related) < 0.2, "the behaviour changed"
network[3].weight.data *= 1000
scaled = VarGrad(network, **settings).attribute(images, classes).detach()
print(f"logits times 1000: correlation with the map before {correlate(scaled, found):.2f}")
assert correlate(scaled, found) < 0.5, "the behaviour changed"
PYTHON
