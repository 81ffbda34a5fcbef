#!/usr/bin/env bash
# Guess: batchgenerators' `GaussianNoiseTransform(noise_variance=(.01, .01))` adds noise of variance .01, a standard
#   deviation of .1; `RicianNoiseTransform` gives the dark background of a magnetic resonance image its typical noise.
# Behaviour: with batchgenerators 0.25.5 the noise has a standard deviation of .01, a variance of .0001: the number is taken
#   as the deviation. Rician noise leaves every pixel of exactly 0 at exactly 0, where a Rayleigh distribution with a mean
#   of 1.25 deviations is due; pixels of .000001 have it.
# Cause: both functions (batchgenerators/augmentations/noise_augmentations.py) pass the variance to
#   `numpy.random.normal` as its scale; the Rician one multiplies by the sign of the data, which is 0 for 0.
# Why it matters: networks of nnU-Net's family are trained with these transforms. Whoever copies a variance from a paper
#   adds a hundredth of its noise, and masked backgrounds stay recognisable by their zeros.
# Versions: batchgenerators 0.25.5, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q batchgenerators==0.25.5 numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import random

import numpy as np
from batchgenerators.transforms.noise_transforms import GaussianNoiseTransform, RicianNoiseTransform

np.random.seed(0)
random.seed(0)
asked = 0.01
grey = np.full((1, 1, 256, 256), 0.5)
noise = GaussianNoiseTransform(noise_variance=(asked, asked))(data=grey.copy())["data"] - grey
print(f"variance asked {asked}, found {noise.var():.6f}; standard deviation {noise.std():.4f}")
assert abs(noise.std() - asked) < 1e-3 * 0.5, "the parameter is a variance now"

means = {}
for value in (0.0, 1e-6):
    dark = np.full((1, 1, 256, 256), value)
    noisy = RicianNoiseTransform(noise_variance=(0.05, 0.05))(data=dark)["data"]
    means[value] = noisy.mean(), noisy.std()
    print(f"Rician noise of .05 on {value:g}: mean {noisy.mean():.4f}, standard deviation {noisy.std():.4f}")
assert means[0.0] == (0, 0), "zeros get noise now"
assert abs(means[1e-6][0] - 0.05 * (np.pi / 2) ** 0.5) < 1e-3
PYTHON
