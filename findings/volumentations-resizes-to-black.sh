#!/usr/bin/env bash
# Guess: `Resize(shape)` of volumentations-3D, called as its README does, interpolates the volume in its own numbers: a
#   volume of floats in [0, 1] keeps its mean, and one of Hounsfield units its air and its bone.
# Behaviour: with volumentations-3D 1.0.4 a volume in [0, 1] becomes 0 everywhere, at any size, also at its own. Of a
#   normalised volume (mean 0, deviation 1) 67 % of the voxels become 0. Hounsfield units become bytes: here air, -1000,
#   becomes 24, and bone, 1000, becomes 232. With `resize_type=0` all three are right.
# Cause: `resize` (volumentations/augmentations/functional.py) turns each channel into bytes before it calls SciPy's
#   `zoom`, if `resize_type` is not 0; 1 is the default. `Compose` has just turned the volume into floats.
# Why it matters: the README's pipeline resizes first and adds noise and gamma later, so a network is trained on noise
#   alone, or on tissue of arbitrary density. `RandomResizedCrop` does the same with the part that it cuts. The issue
#   https://github.com/ZFTurbo/volumentations/issues/32 asks whether data are limited to bytes; it names no black volume.
# Versions: volumentations-3D 1.0.4, scikit-image 0.26.0, scipy 1.17.1, opencv-python 5.0.0.93, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q volumentations-3D==1.0.4 scikit-image==0.26.0 scipy==1.17.1 \
  opencv-python==5.0.0.93 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from scipy.ndimage import zoom
from volumentations import Compose, RandomResizedCrop, Resize

generator = np.random.default_rng(0)
shares = zoom(generator.random((8, 8, 8)), 4, order=1)[..., None].astype(np.float32)
normalised = (shares - shares.mean()) / shares.std()
hounsfield = np.full(shares.shape, -1000, np.float32)
hounsfield[8:24, 8:24, 8:24] = 1000


def resize(volume, size, transform=Resize, **settings):
    return Compose([transform((size, size, size), p=1, **settings)])(image=volume)["image"]


for size in (16, 32, 48):
    small, right = resize(shares, size), resize(shares, size, resize_type=0)
    print(f"[0, 1] to {size}: mean {shares.mean():.2f} becomes {small.mean():.2f}; resize_type=0 {right.mean():.2f}")
    assert small.max() == 0, "the behaviour changed"
    assert abs(right.mean() - shares.mean()) < 0.01
assert resize(shares, 16, RandomResizedCrop).max() == 0
black = (resize(normalised, 32) == 0).mean()
print(f"normalised: {100 * black:.0f} % of the voxels become 0")
assert black > 0.6, "the behaviour changed"
values, right = (np.unique(resize(hounsfield, 32, **settings)) for settings in ({}, {"resize_type": 0}))
print(f"Hounsfield units -1000 and 1000 become {values.tolist()}; resize_type=0 {right.tolist()}")
assert values.min() >= 0 and values.max() < 256, "the behaviour changed"
assert right.tolist() == [-1000, 1000]
PYTHON
