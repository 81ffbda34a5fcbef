#!/usr/bin/env bash
# Guess: Quantus' Consistency asks whether images with like maps have like predictions: its `top_n_sign` compares the
#   signs of the n most important pixels, so the whole map counts, and random maps score lower than the gradient.
# Behaviour: with Quantus 0.6.0 it compares the first five pixels of the first row. With `abs=True`, the default, their
#   signs are equal in all images, so every map has the score of every other: the share of images of one predicted
#   class. With `abs=False` a random map with five pixels of the gradient in its corner has the gradient's score, 1, and
#   the gradient with five random pixels has that of a random map.
# Cause: `np.sign(a)[:n]` (`top_n_sign`, quantus/functions/discretise_func.py, the default of
#   quantus/metrics/robustness/consistency.py) does not sort.
# Why it matters: a table shows one number for all estimators, which moves with the data set's classes and the batch.
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
network = nn.Sequential(nn.Flatten(), nn.Linear(784, 4)).eval()
generator = np.random.default_rng(0)
images = generator.standard_normal((64, 1, 28, 28)).astype(np.float32)
classes = network(torch.tensor(images)).argmax(1).numpy()
gradient = network[1].weight.detach().numpy()[classes].reshape(images.shape)
random = generator.standard_normal(images.shape)
corner = np.zeros(images.shape, bool)
corner[:, :, 0, :5] = True
equal = np.mean([np.sum(classes == own) - 1 for own in classes]) / 63
maps = {
    "gradient": gradient,
    "random": random,
    "random, five pixels of the gradient": np.where(corner, gradient, random),
    "gradient, five random pixels": np.where(corner, random, gradient),
}
print(f"two images have one class in {equal:.3f} of pairs")
for absolute in (True, False):
    scores = {}
    for name, values in maps.items():
        metric = quantus.Consistency(abs=absolute, disable_warnings=True)
        scores[name] = np.mean(metric(network, images, classes, values.copy(), channel_first=True))
        print(f"abs={absolute}, {name}: {scores[name]:.3f}")
    first, second, third, fourth = scores.values()
    assert third == first and fourth == second, "the behaviour changed: other pixels count"
    assert np.isclose([first, second], equal).all() if absolute else first > 0.99 > second, "the behaviour changed"
PYTHON
