#!/usr/bin/env bash
# Guess: `perturb_baseline` of Quantus' metrics fills removed pixels with black ("black"), the mean of the image ("mean")
#   or noise ("uniform"), the same for each step of a curve.
# Behaviour: with Quantus 0.6.0 "black" is the smallest value of the image at that moment, so a bright image with
#   values from .4 to 1 is never filled with less than .4. "mean" moves with each step, as the filled pixels count: here
#   from .70 to .58, if the brightest go first. "uniform" is one random number for all removed pixels of an image, anew
#   at each step: a flat grey.
# Cause: `get_baseline_dict` (quantus/helpers/utils.py) takes the minimum and mean of the array that it gets, which
#   PixelFlipping, Selectivity and RegionPerturbation have changed already, and draws `size=return_shape[0]` numbers,
#   one for each image, with `batched=True`.
# Why it matters: "black" is the default. Scans and microscopy without black pixels lose less than photographs, so
#   curves depend on the images' ranges. A number, as roarbench gives, is the same for all.
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

seen = []


class Watched(nn.Module):
    def forward(self, images):
        seen.append(images.numpy().reshape(len(images), -1).copy())
        return torch.stack([images.mean((1, 2, 3)), -images.mean((1, 2, 3))], 1)


def list_fills(values, baseline):
    """List the value that takes the place of each pixel, most important first."""
    seen.clear()
    images = np.array(values, np.float32).reshape(1, 1, 4, 4)
    metric = quantus.PixelFlipping(perturb_baseline=baseline, disable_warnings=True)
    metric(Watched().eval(), images, np.array([0]), images.copy(), channel_first=True, softmax=False)
    steps = seen[-16:]  # one pixel each; the map is the image, so the brightest pixel comes first
    order = np.argsort(-images.reshape(-1))
    return [float(step[0, pixel]) for step, pixel in zip(steps, order)]


image = np.linspace(0.4, 1, 16)  # a white background, and no pixel darker than .4
for name in ("black", "mean", "uniform", 0.0):
    np.random.seed(0)
    fills = list_fills(image, name)
    print(f"{name}: fills from {min(fills):.3f} to {max(fills):.3f}, the first {np.round(fills[:4], 3)}")
    if name == "black":
        assert np.allclose(fills, 0.4), "the behaviour changed"
    elif name == "mean":
        assert np.isclose(fills[0], image.mean()) and fills[-1] < 0.9 * image.mean(), "the behaviour changed"
    elif name == 0.0:
        assert not np.any(fills)
replace = quantus.functions.perturb_func.batch_baseline_replacement_by_indices
pixels = np.arange(16)[None].repeat(2, 0)
noise = replace(arr=np.zeros((2, 16)), indices=pixels, perturb_baseline="uniform")
print(f"two images, all pixels removed by uniform noise: {[np.unique(row).round(3).tolist() for row in noise]}")
assert len(np.unique(noise)) == 2, "the behaviour changed"
PYTHON
