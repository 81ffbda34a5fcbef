#!/usr/bin/env bash
# Guess: Quantus' ROAD reports the accuracy over all images that it gets, and `batch_size` sets speed and memory.
# Behaviour: with Quantus 0.6.0 only the first batch counts, 64 images by default; the others are imputed and predicted,
#   and their results thrown away. Here the labels of all images but the first eight are wrong. With 1 % of the pixels
#   removed, accuracy is 22 % in one batch of 32 and 88 % in batches of 8. SensitivityN reads its first batch, too.
# Cause: `custom_postprocess` (quantus/metrics/faithfulness/road.py and sensitivity_n.py) reads the first entry of
#   `self.evaluation_scores`, which has one entry for each batch.
# Why it matters: a score "of 1,000 images" is that of 64. In a data set sorted by class these show a class or two.
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
network = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 5)).eval()
images = np.random.default_rng(0).standard_normal((32, 1, 16, 16)).astype(np.float32)
labels = network(torch.tensor(images)).argmax(1).numpy()
labels[8:] = (labels[8:] + 1) % 5
maps = np.random.default_rng(1).random(images.shape)
found = {}
for batch in (32, 8):
    metric = quantus.ROAD(percentages=[1], noise=0.01, disable_warnings=True)
    np.random.seed(0)
    found[batch] = float(metric(network, images, labels, maps, batch_size=batch, channel_first=True)[1])
    print(f"batches of {batch}: accuracy {found[batch]:.0%} with 1 % of the pixels removed")
assert found == {32: 7 / 32, 8: 7 / 8}, "the behaviour changed"
PYTHON
