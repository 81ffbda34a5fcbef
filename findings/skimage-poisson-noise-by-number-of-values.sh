#!/usr/bin/env bash
# Guess: `skimage.util.random_noise(image, mode="poisson")` adds the noise of counted photons, whose strength follows the
#   brightness, so images of equal brightness get equally strong noise.
# Behaviour: with scikit-image 0.26.0 the strength follows the number of *different values* in the image. A ramp of 64 x
#   64 pixels gets noise of .045; the same ramp plus a millionth, which makes every value different, .011; four pixels
#   for each of these, .006; the ramp in 16 greys .17, and in 4 greys .38.
# Cause: `random_noise` (skimage/util/noise.py) takes the next power of two above the count of unique values for the
#   number of photons of white. Its documentation says that the noise is generated from the data.
# Why it matters: robustness of networks and stability of explanations are measured under this noise. Photographs decoded
#   as bytes get noise many times as strong as the same photographs resized in floats, and larger images less than smaller
#   ones, so curves of data sets cannot be compared.
# Versions: scikit-image 0.26.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-image==0.26.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from skimage.util import random_noise

generator = np.random.default_rng(0)
steps = np.linspace(0.2, 0.8, 64)
ramp = np.add.outer(steps, steps) / 2
distinct = ramp + generator.normal(0, 1e-6, ramp.shape)
larger = np.kron(ramp, np.ones((2, 2))) + generator.normal(0, 1e-6, (128, 128))
images = {"ramp": ramp, "plus a millionth": distinct, "four pixels for each": larger}
images |= {f"{greys} greys": np.round(ramp * (greys - 1)) / (greys - 1) for greys in (16, 4)}
spread = {}
for name, image in images.items():
    spread[name] = (random_noise(image, "poisson", rng=0) - image).std()
    print(f"{name:22} mean {image.mean():.2f}, {len(np.unique(image)):6} values, noise {spread[name]:.3f}")
assert spread["ramp"] > 3.5 * spread["plus a millionth"], "the behaviour changed"
assert spread["plus a millionth"] > 1.8 * spread["four pixels for each"], "the behaviour changed"
assert spread["4 greys"] > 8 * spread["ramp"], "the behaviour changed"
PYTHON
