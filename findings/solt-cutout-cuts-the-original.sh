#!/usr/bin/env bash
# Guess: a `Stream` of SOLT returns an augmented copy of an image, and leaves the image that it gets alone; a data set in
#   memory is the same after an epoch.
# Behaviour: with solt 0.2.1 `CutOut` blackens the caller's own array. Called for ten epochs with a hole of a quarter of
#   each side, which hides 6 % of an image, the images themselves have lost 43 % of their pixels, and so has what
#   a network sees in the tenth epoch. Noise, salt and pepper, flips, gamma and blur leave the array alone.
# Cause: `CutOut._apply_img` (solt/transforms/_transforms.py) writes 0 into the array that it is given, and no step before
#   copies it (`SaltAndPepper` does, itself). A flip or a rotation in front of `CutOut` in the stream hides it.
# Why it matters: training sets that fit into memory are decoded once. The share of hidden pixels grows with
#   each epoch, and with the number of transforms that share the data; if test images come from the same array,
#   or maps are made for it, they have the holes, too. Masks are not cut, so a score counts what cannot be seen.
# Versions: solt 0.2.1, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6, opencv-python-headless 5.0.0.93, scipy 1.17.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q solt==0.2.1 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6 \
    opencv-python-headless==5.0.0.93 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import random
import sys

import numpy as np
import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

import solt
import solt.transforms as slt

random.seed(0)
transforms = {
    "CutOut": slt.CutOut(0.25, p=1),
    "Flip and CutOut": solt.Stream([slt.Flip(p=1), slt.CutOut(0.25, p=1)]),
    "Noise": slt.Noise(gain_range=0.5, p=1),
    "SaltAndPepper": slt.SaltAndPepper(gain_range=0.1, p=1),
    "GammaCorrection": slt.GammaCorrection(gamma_range=0.5, p=1),
    "Blur": slt.Blur(k_size=5, gaussian_sigma=2.0, p=1),
}
for name, transform in transforms.items():
    images = np.random.default_rng(0).integers(50, 200, (100, 64, 64, 3), np.uint8)
    originals = images.copy()
    seen = []
    for _ in range(10):
        cut = [solt.Stream([transform])({"image": image}, return_torch=False).data[0] for image in images]
        seen.append(np.mean([image == 0 for image in cut]))
    changed = (images != originals).mean()
    print(f"{name}: {changed:.0%} of the original pixels changed after ten epochs; black in the first {seen[0]:.0%}, "
          f"in the tenth {seen[-1]:.0%}")
    assert (changed > 0.4) == (name == "CutOut") and (changed == 0) == (name != "CutOut"), "the behaviour changed"
    assert "CutOut" not in name or seen[0] == 0.0625
PYTHON
