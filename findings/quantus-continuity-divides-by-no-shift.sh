#!/usr/bin/env bash
# Guess: Quantus' Continuity compares an image's map with the maps of the shifted image, so SmoothGrad, which is made to
#   vary less, has about the gradient's score, and the noise that its samples leave adds a little.
# Behaviour: with Quantus 0.6.0 SmoothGrad has two thousand million where the gradient has 2.1: for any estimator that
#   draws random numbers the score is its sampling noise times 10^9, and more samples make it less.
# Cause: one of the steps is a shift by nothing (`evaluate_batch`, quantus/metrics/robustness/continuity.py). There the
#   distance of the two images is 0, to which 10^-9 is added, and the score is the largest ratio of all steps. Sides of
#   28, 32, 64 and 224 pixels meet this step with the default of 28 steps.
# Why it matters: SmoothGrad, GradientShap, LIME and RISE are all "discontinuous", by nine digits.
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


def explain(model, inputs, targets, noise=0.0, samples=1, **_):
    maps = []
    for _ in range(samples):
        images = torch.tensor(np.asarray(inputs), dtype=torch.float32)
        images = (images + noise * torch.randn(images.shape)).requires_grad_()
        model(images)[range(len(images)), torch.as_tensor(targets)].sum().backward()
        maps.append(images.grad.numpy())
    return np.mean(maps, axis=0)


for side in (28, 32, 64, 224):
    step = (2 * side + 1) // 28
    assert 0 in [step * count - side for count in range(1, 29)], "this side has no shift of 0"
torch.manual_seed(0)
network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Softplus(), nn.Flatten(), nn.Linear(2704, 5)).eval()
images = np.random.default_rng(0).random((4, 1, 28, 28)).astype(np.float32)
classes = network(torch.tensor(images)).argmax(1).numpy()
scores = {}
for name, settings in (
    ("gradient", {}),
    ("SmoothGrad, 5 samples", {"noise": 0.1, "samples": 5}),
    ("SmoothGrad, 20 samples", {"noise": 0.1, "samples": 20}),
):
    metric = quantus.Continuity(disable_warnings=True)
    given = {"channel_first": True, "explain_func": explain, "explain_func_kwargs": settings}
    scores[name] = np.mean(metric(network, images, classes, **given))
    print(f"{name}: {scores[name]:.3g}")
plain, few, many = scores.values()
assert plain < 100 and min(few, many) > 1e7 * plain and many < 0.8 * few, "the behaviour changed"
PYTHON
