#!/usr/bin/env bash
# Guess: Quantus' AttributionLocalisation(weighted=True) multiplies the share of a map inside the object by the object's
#   share of its image, so an image's score depends on the image, its map and its object.
# Behaviour: with Quantus 0.6.0 the object's size is divided by the pixels of all images of the batch but the first two.
#   An image that should score .1 scores .006 in a batch of 18, .013 in one of 10, .05 in one of 4 and infinity in one of
#   2. Without weights other images change nothing.
# Cause: `x_batch[2:].size` (quantus/metrics/localisation/attribution_localisation.py) drops two images where the shape
#   behind two axes is meant. The warning about objects above `max_size` reads the same ratio.
# Why it matters: the last, smaller batch of a data set outweighs all others in the mean.
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
network = nn.Sequential(nn.Flatten(), nn.Linear(64, 4)).eval()
images = np.random.default_rng(0).random((18, 1, 8, 8)).astype(np.float32)
classes = network(torch.tensor(images)).argmax(1).numpy()
segments = np.zeros(images.shape, int)
segments[:, :, :4, :4] = 1
maps = np.ones(images.shape) + segments  # 2 inside the object, a quarter of the image, and 1 outside: 32 of 80
for weighted in (False, True):
    for batch in (18, 10, 4, 2):
        metric = quantus.AttributionLocalisation(weighted=weighted, disable_warnings=True)
        arrays = (each[:batch] for each in (images, classes, maps, segments))
        score = metric(network, *arrays, channel_first=True)[0]
        expected = 0.4 * np.divide(16, 64 * (batch - 2)) if weighted else 0.4
        print(f"weighted={weighted}, {batch} images: {score:.4f}; by the image's own size {0.1 if weighted else 0.4}")
        assert np.isclose(score, expected), "the behaviour changed"
PYTHON
