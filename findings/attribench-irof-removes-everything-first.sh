#!/usr/bin/env bash
# Guess: `ConstantImageMasker.mask_top` and the other maskers of attribench hide, given segments, the share of the most
#   important segments that is asked for, so the curve of IROF begins with the whole image and falls.
# Behaviour: with attribench 0.1.9 a share that is less than one segment hides *all* segments. Of 28 x 28 images, which
#   SLIC divides into 81 segments, the second of IROF's 100 steps is the empty image and the third the image without one
#   segment. Of the first 2 % in ten steps, five are the empty image.
#   `mask_bot`, which hides the least important segments, is right.
# Cause: `ImageMasker.mask_top` (attribench/masking/image/_image_masker.py) takes the last `num_to_mask` segments by
#   `[-num_to_mask:]`, which is all of them for 0; only a share of exactly 0 is treated before.
# Why it matters: removal of the first segments is what tells maps apart, and at these steps all maps are equal. The
#   curve in MoRF order has the artefact and that in LeRF order has not, so their difference has it, too. `irof` and
#   the class Irof mask by this function. No issue on it was found.
# Versions: attribench 0.1.9 (it asks for torch below 2, which nothing here depends on), torch 2.13.0, scikit-image
#   0.26.0, opencv-python-headless 5.0.0.93, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 scikit-image==0.26.0 opencv-python-headless==5.0.0.93 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps attribench==0.1.9
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch
from attribench.masking.image import ConstantImageMasker
from skimage.segmentation import slic
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
images = F.interpolate(torch.rand(8, 1, 8, 8, generator=generator), size=28, mode="bilinear") + 0.1
# the segments that attribench's IROF makes
pairs = [slic(image.numpy().transpose(1, 2, 0), start_label=0, slic_zero=True) for image in images]
segments = torch.tensor(np.stack(pairs))[:, None]
counts = [len(one.unique()) for one in segments]
masker = ConstantImageMasker("pixel")
masker.set_batch(images, images, segments)


def measure_hidden(share, mask):
    """Return the mean share of pixels that a function of the masker hides, and the share of segments it should hide."""
    hidden = (mask(share) == 0).float().mean().item()
    return hidden, np.mean([int(count * share) / count for count in counts])


for step in (1, 2, 50):
    hidden, right = measure_hidden(step / 99, masker.mask_top)
    lowest, _ = measure_hidden(step / 99, masker.mask_bot)
    print(f"step {step}, {counts[0]} segments: hidden {hidden:.3f}, least important {lowest:.3f}, right {right:.3f}")
    assert abs(lowest - right) < 0.05 and (hidden == 1 if step == 1 else abs(hidden - right) < 0.05), "it changed"
empty = [measure_hidden(share, masker.mask_top)[0] == 1 for share in np.linspace(0, 0.02, 10)]
print(f"first 2% in ten steps: {sum(empty)} of them show the empty image")
assert sum(empty) > 4, "the behaviour changed"
PYTHON
