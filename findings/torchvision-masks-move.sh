#!/usr/bin/env bash
# Guess: `v2.Resize` of torchvision moves an image and its `tv_tensors.Mask` together: the centre stays the centre.
# Behaviour: with torchvision 0.28.0 the mask moves right and down, by up to half a pixel of the small size. From 224 to
#   28 pixels the mask of a centred disc lies 3.5 pixels of 224 beside its image; to 14, 5.9. Resizing does not commute
#   with flips: 3 % and 5 % of the mask's pixels change. Pillow's `NEAREST` and torch's `nearest-exact` to 28 pixels keep
#   the centre.
# Cause: `resize_mask` (torchvision/transforms/v2/functional/_geometry.py) asks for `nearest`, which reads the upper left
#   pixel of each block; images are read around the block's middle.
# Why it matters: masks are scaled down to the size of a CAM to ask whether maps lie on the object, and with the image
#   in training. The error has one direction, so it does not cancel in a mean; a flipped test set scores otherwise.
# Versions: torchvision 0.28.0, torch 2.13.0, pillow 13.0.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchvision==0.28.0 torch==2.13.0 pillow==13.0.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import numpy as np
import torch
from PIL import Image

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import horizontal_flip

rows, columns = torch.meshgrid(torch.arange(224), torch.arange(224), indexing="ij")
disc = (rows - 111.5) ** 2 + (columns - 111.5) ** 2 < 50**2
mask = tv_tensors.Mask(disc[None].to(torch.uint8))
image = tv_tensors.Image(disc.expand(3, 224, 224).float())


def find_centre(values):
    weights = torch.as_tensor(values).double().sum(0)
    return ((torch.arange(len(weights)) + 0.5) * weights).sum().item() / weights.sum().item() * 224 / len(weights)


for size in (28, 14):
    resize = v2.Resize((size, size))
    small_image, small_mask = resize(image, mask)
    moved = find_centre(small_mask[0]) - find_centre(small_image[0])
    turned = horizontal_flip(resize(horizontal_flip(mask)))
    changed = (turned != small_mask).float().mean().item()
    pillow = find_centre(np.asarray(Image.fromarray(disc.numpy()).resize((size, size), Image.Resampling.NEAREST)))
    exact = find_centre(v2.Resize((size, size), v2.InterpolationMode.NEAREST_EXACT)(disc[None].to(torch.uint8))[0])
    print(f"to {size}: mask beside image by {moved:.1f} of 224 pixels; flips change {changed:.0%} of the mask")
    assert 3 < moved < 8 and changed > 0.02 and abs(find_centre(small_image[0]) - 112) < 0.01, "the behaviour changed"
    assert size != 28 or abs(pillow - 112) < 0.01 > abs(exact - 112), "the behaviour changed"
PYTHON
