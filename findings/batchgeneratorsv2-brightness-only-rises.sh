#!/usr/bin/env bash
# Guess: `BrightnessAdditiveTransform(mu=0, sigma=.5)` of batchgeneratorsv2, the augmentations of nnU-Net, adds a normally
#   distributed number of mean `mu` and deviation `sigma` to an image, as `BrightnessTransform` of batchgenerators does,
#   and `synchronize_channels` decides whether channels share it.
# Behaviour: with batchgeneratorsv2 0.3.6 no image ever gets darker by default. Added numbers are uniform between mu and
#   sigma: of 2,000 images all get brighter, by .25 on average and .5 at most. With `synchronize_channels=False` the mean is
#   0, the deviation .5 and half of the channels get darker, as in batchgenerators 0.25.5. A mu of 1 and a sigma of .5 raise
#   an error.
# Cause: `get_parameters` (batchgeneratorsv2/transforms/intensity/brightness.py) hands the pair to `sample_scalar`, which
#   takes it for the bounds of a uniform distribution, if channels are synchronised, which is the default; otherwise it
#   calls `normal_`.
# Why it matters: a network trained so has seen brighter images only, and meets darker scans unprepared. Images are
#   normalised first, so a shift looks like none in a viewer.
# Versions: batchgeneratorsv2 0.3.6, batchgenerators 0.25.5, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q batchgeneratorsv2==0.3.6 batchgenerators==0.25.5 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch
from batchgenerators.transforms.color_transforms import BrightnessTransform
from batchgeneratorsv2.transforms.intensity.brightness import BrightnessAdditiveTransform

np.random.seed(0)
torch.manual_seed(0)


def shift(**settings):
    transform = BrightnessAdditiveTransform(mu=0, sigma=0.5, **settings)
    return np.array([transform(image=torch.zeros(2, 8, 8))["image"][0, 0, 0].item() for _ in range(2000)])


def shift_by_batchgenerators():
    transform = BrightnessTransform(mu=0, sigma=0.5, per_channel=False)
    return np.array([transform(data=np.zeros((1, 2, 8, 8), np.float32))["data"][0, 0, 0, 0] for _ in range(2000)])


found = {"default": shift(), "per channel": shift(synchronize_channels=False), "batchgenerators": shift_by_batchgenerators()}
for name, shifts in found.items():
    darker = (shifts < 0).mean()
    print(f"{name}: mean {shifts.mean():.2f}, deviation {shifts.std():.2f}, largest {shifts.max():.2f}, darker {darker:.0%}")
for name in ("per channel", "batchgenerators"):
    assert abs(found[name].mean()) < 0.05 and abs(found[name].std() - 0.5) < 0.03
default = found["default"]
assert default.min() >= 0 and default.max() <= 0.5 and abs(default.mean() - 0.25) < 0.02, "the behaviour changed"
PYTHON
