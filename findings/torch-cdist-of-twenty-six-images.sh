#!/usr/bin/env bash
# Guess: `torch.cdist` of images with themselves is 0 on the diagonal, whatever their number, and the distance of two
#   images does not depend on how many others are in the call.
# Behaviour: with torch 2.13.0 that holds for up to 25 images. From 26 on, images of 64 x 64 with values from 0 to 255 have
#   distances of up to 14 from themselves; two that differ by 1 in ten values, so by 3.2, have anything from 0 to 13.
#   With `compute_mode="donot_use_mm_for_euclid_dist"` both are right again.
# Cause: above 25 rows the squares are taken as |a|^2 + |b|^2 - 2 ab by a matrix product
#   (aten/src/ATen/native/Distance.cpp), whose float32 terms are 10^8 and cancel; the documentation gives the number 25,
#   and no error.
# Why it matters: searches for near duplicates between training and test images, nearest neighbours of Relief and of
#   prototypes, and kernels of MMD are written and tested on a few images, and run on many. Distances below a thousandth of
#   the images' length are noise there.
# Versions: torch 2.13.0 (CPU).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch

generator = torch.Generator().manual_seed(0)
images = torch.randint(0, 256, (60, 3 * 64 * 64), generator=generator).float()
nearly = images.clone()  # each differs from its original by 1 in ten values
nearly[:, :10] += 1
true = 10**0.5

found = {}
for count in (25, 26, 60):
    own = torch.cdist(images[:count], images[:count]).diagonal()
    twins = torch.cdist(nearly[:count], images[:count]).diagonal()
    found[count] = own.max().item(), (twins - true).abs().max().item()
    print(f"{count} images: from themselves at most {own.max():.1f}; twins {twins.min():.1f} to {twins.max():.1f}, true {true:.1f}")
exact = torch.cdist(nearly, images, compute_mode="donot_use_mm_for_euclid_dist").diagonal()
assert (exact - true).abs().max() < 1e-3
assert found[25][0] == 0 and found[25][1] < 1e-3
assert min(found[26]) > 2 and min(found[60]) > 2, "distances of many images are exact now"
PYTHON
