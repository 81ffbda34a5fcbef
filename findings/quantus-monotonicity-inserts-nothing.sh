#!/usr/bin/env bash
# Guess: Quantus' Monotonicity inserts an image's pixels into a baseline, the least important first, and asks whether
#   the probability never falls, so random maps fail where good ones pass.
# Behaviour: with Quantus 0.6.0 no pixel is ever inserted. With the baseline black, white or a number the network sees
#   one and the same empty image at each step, so the probability never falls: every map passes, its negative and random
#   numbers too. Here insertion by hand lets none of them pass.
# Cause: `evaluate_batch` (quantus/metrics/faithfulness/monotonicity.py) writes the baseline over pixels of `x_baseline`,
#   which is the baseline already; nothing reads the pixels of `x_batch`.
# Why it matters: a table of estimators shows 100 % for each of them, and looks like a success.
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
layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 5)]
network = nn.Sequential(*layers).eval()
seen = []
network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach().clone()))
images = np.random.default_rng(0).random((16, 1, 16, 16)).astype(np.float32)
tensor = torch.tensor(images, requires_grad=True)
logits = network(tensor)
classes = logits.argmax(1).numpy()
logits.max(1).values.sum().backward()
good = (tensor.grad * tensor).detach().numpy()


def insert(maps):
    shown, probabilities = np.zeros((16, 256), np.float32), []
    order = np.argsort(maps.reshape(16, -1), axis=1)
    for pixels in np.split(order, 16, axis=1):
        np.put_along_axis(shown, pixels, np.take_along_axis(images.reshape(16, -1), pixels, 1), 1)
        step = network(torch.tensor(shown.reshape(images.shape))).softmax(1).detach().numpy()
        probabilities.append(step[range(16), classes])
    return np.all(np.diff(probabilities, axis=0) >= 0, axis=0).mean()


maps = {"gradient x input": good, "its negative": -good, "random": np.random.default_rng(1).random(images.shape)}
for baseline in ("black", "white", 0.0):
    for name, each in maps.items():
        settings = {"abs": False, "normalise": False, "disable_warnings": True}
        metric = quantus.Monotonicity(features_in_step=16, perturb_baseline=baseline, **settings)
        seen.clear()
        passed = np.mean(metric(network, images, classes, each, channel_first=True))
        steps, by_hand = len(seen), insert(each)
        equal = all(torch.equal(each, seen[0]) for each in seen[:steps])
        print(f"{baseline}, {name}: {passed:.0%} of maps pass, by hand {by_hand:.0%}; {steps} equal inputs: {equal}")
        assert passed == 1 and equal and steps == 16, "the behaviour changed"
        assert by_hand == 0, "the comparison by hand changed"
PYTHON
