#!/usr/bin/env bash
# Guess: Quantus' Infidelity blackens one square patch at a time, as the paper's square removal does, takes
#   `n_perturb_samples` random ones, and so scores an image and its mirror image alike.
# Behaviour: with Quantus 0.6.0 patches stay black: the second prediction has two black patches, the last a black image.
#   The gradient's score is 10 times that of single patches. After image, map and network are turned upside down,
#   single images score from .13 to 2.2 times as much. 1 and 100 samples have equal scores: nothing is random.
# Cause: `x_perturbed`, the result of one patch, is the input of the next one (`evaluate_batch`,
#   quantus/metrics/faithfulness/infidelity.py), and patches come in rows from the upper left.
# Why it matters: the score is mostly that of nearly black images, and the upper rows count more often than the lower
#   ones, where objects stand. Ten samples cost ten times the predictions.
# Versions: quantus 0.6.0, torch 2.13.0, numpy 2.4.6. The paper: https://arxiv.org/abs/1901.09392.
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


class Turned(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images):
        return self.network(images.flip(-1, -2))


def predict(images):
    return network(torch.tensor(images)).detach().numpy()[range(8), classes]


def score(network, images, maps, samples=10):
    metric = quantus.Infidelity(n_perturb_samples=samples, disable_warnings=True)  # patches of 4 x 4
    return np.array(metric(network, images, classes, maps, channel_first=True))


torch.manual_seed(0)
network = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Softplus(), nn.Flatten(), nn.Linear(1568, 5)).eval()
images = np.random.default_rng(0).random((8, 1, 16, 16)).astype(np.float32)
classes = network(torch.tensor(images)).argmax(1).numpy()
tensor = torch.tensor(images, requires_grad=True)
network(tensor)[range(8), classes].sum().backward()
maps = tensor.grad.numpy()
single, growing = np.zeros(8), np.zeros(8)
blackened, black = images.copy(), images.min(axis=(1, 2, 3), keepdims=True)
for row in range(0, 16, 4):
    for column in range(0, 16, 4):
        alone = images.copy()
        for changed, total in ((alone, single), (blackened, growing)):
            changed[:, :, row : row + 4, column : column + 4] = black
            told = (maps * (images - changed)).sum(axis=(1, 2, 3))
            total += (predict(images) - predict(changed) - told) ** 2 / 16
found = score(network, images, maps)
turned = score(Turned(network).eval(), images[..., ::-1, ::-1].copy(), maps[..., ::-1, ::-1].copy())
print(f"mean score {found.mean():.2g}, of single patches {single.mean():.2g}, of growing ones {growing.mean():.2g}")
print(f"turned upside down, single images have {np.min(turned / found):.2g} to {np.max(turned / found):.2g} times as much")
np.testing.assert_allclose(found, growing, rtol=1e-3, err_msg="the behaviour changed")
np.testing.assert_allclose(found, score(network, images, maps, 1), rtol=1e-4, err_msg="samples differ")
np.testing.assert_allclose(found, score(network, images, maps, 100), rtol=1e-4, err_msg="samples differ")
assert found.mean() > 5 * single.mean() and (turned / found).max() > 2 * (turned / found).min(), "the behaviour changed"
PYTHON
