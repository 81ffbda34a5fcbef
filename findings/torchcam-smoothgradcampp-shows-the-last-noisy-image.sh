#!/usr/bin/env bash
# Guess: Smooth Grad-CAM++ averages over noisy copies of an image, so maps of one image become alike with more samples,
#   and its map is a weighted sum of the activations of the image itself.
# Behaviour: with torchcam 0.5.0 neither. The map sums the activations of the *last noisy copy*. Two maps of one image
#   correlate by .34 with one sample and by .34 with 64. Here a map is the sum over the last copy's activations up to
#   rounding, and far from that over the image's.
# Cause: each noisy copy runs through the network with hooks enabled, so `hook_a` and `hook_g` are overwritten.
#   `_compute_smoothgrad_weights` (torchcam/methods/gradient.py) keeps the image's activations in `init_fmap`, uses them
#   for alpha alone, and takes the last copy's gradient; `compute_cams` (torchcam/methods/core.py) then reads `hook_a`.
# Why it matters: the method is chosen to lower the noise of maps, costs `num_samples` forward and backward passes, and
#   has the noise of one. In a benchmark it loses to Grad-CAM++ for that reason.
# Versions: torchcam 0.5.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchcam==0.5.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch
from torch import nn
from torchcam.methods import GradCAMpp, SmoothGradCAMpp

torch.manual_seed(0)
body = (nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3, padding=1), nn.ReLU())
network = nn.Sequential(*body, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 5)).eval()
image = torch.randn(1, 3, 16, 16)
for samples in (1, 4, 16, 64):
    maps = []
    for _ in range(12):
        with SmoothGradCAMpp(network, "3", num_samples=samples, std=1.0) as cam:
            network(image)
            maps.append(cam(1)[0].flatten().numpy())
    likeness = np.corrcoef(maps)[np.triu_indices(12, 1)].mean()
    print(f"{samples} samples: maps of one image correlate by {likeness:.2f}")
    assert likeness < 0.6, "the behaviour changed"

copies = []
handle = network.register_forward_pre_hook(lambda module, inputs: copies.append(inputs[0].detach().clone()))
with SmoothGradCAMpp(network, "3", num_samples=16, std=1.0) as cam:
    network(image)
    made = cam(1, normalized=False)[0].flatten()
handle.remove()
assert len(copies) == 17 and torch.equal(copies[0], image)
errors = []
for name, shown in (("the image", copies[0]), ("the last copy", copies[-1])):
    with torch.no_grad():
        channels = network[:4](shown)[0].flatten(1).double()
    # the ReLU of a map hides where a sum is negative, so weights are fitted where the map is positive
    columns, values = channels[:, made > 0].T, made[made > 0].double()
    fitted = columns @ torch.linalg.lstsq(columns, values[:, None]).solution
    errors.append(((fitted[:, 0] - values).norm() / values.norm()).item())
    print(f"best weighted sum of the activations of {name}: the map up to {errors[-1]:.1e} of its size")
assert errors[0] > 0.1 and errors[1] < 1e-4, "the behaviour changed"
with GradCAMpp(network, "3") as cam:
    first, second = (cam(1, network(image))[0] for _ in range(2))
assert torch.equal(first, second)
PYTHON
