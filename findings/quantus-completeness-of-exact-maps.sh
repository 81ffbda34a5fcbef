#!/usr/bin/env bash
# Guess: Quantus' Completeness passes maps whose sum is the difference of outputs up to rounding, so the contributions of
#   a linear network, weight times pixel, are complete.
# Behaviour: with Quantus 0.6.0 none of 64 is, though all sums are right to a millionth. With `normalise=False` one is,
#   by the luck of rounding; if the same maps are given in double precision, none.
# Cause: `a_batch.sum(axis=-1) == …` (`evaluate_batch`, quantus/metrics/axiomatic/completeness.py) compares floats of two
#   sums of different order; `normalise=True`, the default, first divides maps by their largest value.
# Why it matters: Integrated Gradients, DeepLIFT and LRP are made to be complete; a table shows 0 % for all of them, as
#   for random maps, and calls the axiom violated.
# Versions: quantus 0.6.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q quantus==0.6.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import quantus
import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(784, 5)).eval()
images = np.random.default_rng(0).random((64, 1, 28, 28)).astype(np.float32)
logits = network(torch.tensor(images)).detach().double().numpy()
classes = logits.argmax(1)
differences = logits[range(64), classes] - network[1].bias.detach().double().numpy()[classes]
maps = images * network[1].weight.detach().numpy()[classes].reshape(images.shape)
error = np.abs(maps.sum(axis=(1, 2, 3)) - differences).max() / np.abs(differences).max()
print(f"largest error of a sum: {error:.1g} of the largest difference of outputs")
assert error < 1e-6
random = np.random.default_rng(1).random(images.shape)
for name, values in (("contributions", maps), ("in double precision", maps.astype(np.float64)), ("random maps", random)):
    for normalise in (True, False):
        metric = quantus.Completeness(normalise=normalise, perturb_baseline=0.0, disable_warnings=True)
        share = np.mean(metric(network, images, classes, values.copy(), channel_first=True))
        print(f"{name}, normalise={normalise}: {100 * share:.0f} % are complete")
        assert share < 0.5 and (share == 0 or not normalise), "the behaviour changed"
PYTHON
