#!/usr/bin/env bash
# Guess: the percentile of grad-cam's ROADMostRelevantFirst is the share of pixels that it removes, most relevant first.
# Behaviour: with grad-cam 1.5.7 it is the share that stays. Of a map with 60 % zeros, as a CAM behind its ReLU has,
#   percentiles from 10 to 60 replace all pixels: six of the nine scores of ROADCombined are those of an empty image,
#   whatever the map says. ROADLeastRelevantFirst removes the same 60 % at each percentile from 40 to 90.
# Cause: pixels below `np.percentile(map, percentile)` stay (pytorch_grad_cam/metrics/perturbation_confidence.py); if
#   that is the smallest value, none is below.
# Why it matters: two estimators with different shares of zeros are compared at different shares of removed pixels. By
#   their defaults, ROADMostRelevantFirst() removes 20 % and ROADLeastRelevantFirst() 80 %.
# Versions: grad-cam 1.5.7, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q grad-cam==1.5.7 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import numpy as np
import torch
from torch import nn

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from pytorch_grad_cam.metrics.road import ROADLeastRelevantFirst, ROADMostRelevantFirst
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

torch.manual_seed(0)
network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 5)).eval()
images = torch.randn(1, 3, 16, 16)
dense = np.random.default_rng(0).permutation(256).reshape(1, 16, 16).astype(np.float32) / 255
sparse = np.maximum(dense - 0.6, 0) / 0.4
percentiles, shares = range(10, 100, 10), {}
for name, maps in (("no zeros", dense), ("60 % zeros", sparse)):
    for metric in (ROADMostRelevantFirst, ROADLeastRelevantFirst):
        removed = []
        for percentile in percentiles:
            settings = {"targets": [ClassifierOutputTarget(0)], "model": network, "return_visualization": True}
            _, images_left = metric(percentile)(images, maps, **settings)
            removed.append(round(100 * (images_left != images).any(1).float().mean().item()))
        shares[name, metric] = removed
        print(f"{name}, {metric.__name__}: removes {', '.join(map(str, removed))} % at percentiles 10 to 90")
assert set(map(tuple, list(shares.values())[:2])) == {(90, 80, 70, 60, 50, 40, 30, 20, 10)}, "the behaviour changed"
assert shares["60 % zeros", ROADMostRelevantFirst] == [100] * 6 + [30, 20, 10], "the behaviour changed"
assert shares["60 % zeros", ROADLeastRelevantFirst] == [90, 80, 70] + [60] * 6, "the behaviour changed"
PYTHON
