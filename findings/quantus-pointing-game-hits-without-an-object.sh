#!/usr/bin/env bash
# Guess: Quantus' PointingGame gives no score (NaN) to an image whose segmentation is empty, as its other metrics of
#   localisation do with a warning, and counts a flat map, which points nowhere, as a miss.
# Behaviour: with Quantus 0.6.0 both are hits, without a warning. Of eight images, four without an object and four with
#   maps that point beside it, half are "localised"; so are four maps of zeros.
# Cause: `hit` is an array of bool (quantus/metrics/localisation/pointing_game.py), and NaN
#   assigned to it becomes True; every pixel of a flat map equals its maximum.
# Why it matters: Grad-CAM's maps are zero where all weights are negative, and data sets have images without the object.
#   The estimator with most empty maps wins.
# Versions: quantus 0.6.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q quantus==0.6.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W error::UserWarning - <<'PYTHON'
import warnings

import numpy as np
import quantus
import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(64, 4)).eval()
images = np.random.default_rng(0).random((8, 1, 8, 8)).astype(np.float32)
classes = network(torch.tensor(images)).argmax(1).numpy()
segments = np.zeros(images.shape, int)
segments[:, :, :4, :4] = 1
beside = np.random.default_rng(1).random(images.shape) * (1 - segments)


def score(metric, maps, segments):
    return np.array(metric(network, images, classes, maps, segments, channel_first=True), float)


empty, flat = segments.copy(), beside.copy()
empty[:4], flat[:4] = 0, 0
pointing = quantus.PointingGame(disable_warnings=True)
other = quantus.RelevanceRankAccuracy(disable_warnings=True)
for name, maps, objects, expected in (
    ("maps beside the object", beside, segments, 0),
    ("four images without an object", beside, empty, 1),
    ("four maps of zeros", flat, segments, 1),
):
    hits = score(pointing, maps, objects)
    print(f"{name}: hits {hits}")
    assert (hits[:4] == expected).all() and not hits[4:].any(), "the behaviour changed"
with warnings.catch_warnings(record=True, action="always") as caught:
    assert np.isnan(score(other, beside, empty)[:4]).all() and caught, "the other metric changed"
PYTHON
