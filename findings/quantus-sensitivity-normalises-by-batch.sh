#!/usr/bin/env bash
# Guess: Quantus' robustness metrics compare an image's map with its map after noise, so neither the batch size nor the
#   other images matter; `normalise=True`, the default, divides each map by its own largest value.
# Behaviour: with Quantus 0.6.0 the map is divided by the largest value of the whole data set, the map after noise by
#   that of its batch. With noise of .001 the mean MaxSensitivity of 32 images is .0007 in one batch, .32 in batches of
#   4 and .80 one by one; LocalLipschitzEstimate is .12, 35 and 86. With `normalise=False` batches change nothing.
# Cause: `normalise_by_max` (quantus/functions/normalise_func.py) takes the maximum over all axes, images included;
#   `general_preprocess` calls it on all maps, `explain_batch` on one batch (quantus/metrics/base.py).
# Why it matters: scores measure how unequal in size an estimator's maps are; those of two batch sizes or two numbers of
#   images cannot be compared. `normalise=False` avoids it.
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


def explain(model, inputs, targets, **_):
    images = torch.tensor(np.asarray(inputs), dtype=torch.float32, requires_grad=True)
    model(images)[range(len(images)), torch.as_tensor(targets)].sum().backward()
    return (images.grad * images).detach().numpy()


torch.manual_seed(0)
network = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Softplus(), nn.Flatten(), nn.Linear(1568, 5)).eval()
images = np.random.default_rng(0).standard_normal((32, 1, 16, 16)).astype(np.float32)
classes = network(torch.tensor(images)).argmax(1).numpy()
maps = explain(network, images, classes)
for name, noise in (("MaxSensitivity", {"lower_bound": 1e-3}), ("LocalLipschitzEstimate", {"perturb_std": 1e-3})):
    for normalise in (True, False):
        scores = {}
        for batch in (32, 4, 1):
            np.random.seed(0)
            metric = getattr(quantus, name)(nr_samples=5, normalise=normalise, disable_warnings=True, **noise)
            settings = {"batch_size": batch, "channel_first": True, "explain_func": explain}
            scores[batch] = float(np.mean(metric(network, images, classes, maps, **settings)))
        print(name, f"normalise={normalise}:", ", ".join(f"{mean:.2g} in batches of {b}" for b, mean in scores.items()))
        assert (scores[1] > 100 * scores[32]) == normalise, "the behaviour changed"
        assert normalise or np.isclose(scores[1], scores[32], rtol=0.05), "batches matter without normalisation, too"
PYTHON
