#!/usr/bin/env bash
# Guess: only the order of regions counts for Quantus' RegionPerturbation, so a constant added to a whole map changes
#   nothing.
# Behaviour: with Quantus 0.6.0 this holds only if `patch_size` divides the side. Otherwise maps are padded with 0, and
#   the sums of regions at the border lack values: after `maps + 5` these regions rank last, and the score changes by up
#   to 0.1 in probability.
# Cause: `evaluate_batch` (quantus/metrics/faithfulness/region_perturbation.py) pads `a_batch` with the constant 0 and
#   sums over patches. The docstring says that padding allows any patch size.
# Why it matters: images of 28 pixels in 8 x 8 regions; maps without negative values and centred maps are compared.
#   roarbench subtracts each map's mean (`score_maps` in roarbench/execution/quantus.py).
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

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(100, 4)).eval()
images = np.random.default_rng(0).random((4, 1, 10, 10)).astype(np.float32)
classes = network(torch.tensor(images)).argmax(1).numpy()
maps = np.random.default_rng(1).random((4, 1, 10, 10))
settings = {"abs": False, "normalise": False, "perturb_baseline": 0.0, "disable_warnings": True}
for patch, expected in ((5, False), (4, True)):
    metric = quantus.RegionPerturbation(patch_size=patch, regions_evaluation=4, **settings)
    plain, shifted = (
        np.array(metric(network, images, classes, each, channel_first=True, softmax=True)) for each in (maps, maps + 5)
    )
    change = np.abs(plain - shifted).max()
    print(f"regions of {patch} pixels on a side of 10: a constant changes scores by {change:.3f}")
    assert (change > 0.01) == expected, "the behaviour changed"
PYTHON
