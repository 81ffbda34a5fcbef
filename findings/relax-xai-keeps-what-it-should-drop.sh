#!/usr/bin/env bash
# Guess: `RELAX.forward(probablity_of_drop=.9)` of relax-xai hides 90 % of the image in each mask, and masks are shifted
#   by up to a cell of their grid, as in RISE, so that no grid shows in the map.
# Behaviour: with relax-xai 0.0.5 it hides 10 %: the number is the share that stays. Masks of 7 x 7 cells of 32 pixels are
#   shifted by up to 6 pixels, so the grid stays: masks vary by a standard deviation of .45 in the middle of each cell
#   and .33 between two. Shifted by up to 32 pixels, they vary by .40 everywhere.
# Cause: in `mask_generator` (relax_xai/masking_functions.py, line 19) a cell is 1, and the image stays, where a uniform
#   number is below `probablity_of_drop`; the shift is drawn below the number of cells, and used as a number of pixels.
# Why it matters: a sweep over hidden shares is reversed, and the default .5 hides it. A map of averaged masks is pale on
#   the lines of the grid and strong between them, so rankings of pixels, and ROAR curves, partly follow the grid.
# Versions: relax-xai 0.0.5, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps relax-xai==0.0.5 # it names torchvision, which masks do not need
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from relax_xai.masking_functions import mask_generator

torch.manual_seed(0)
for drop in (0.1, 0.5, 0.9):
    kept = next(mask_generator(400, (224, 224), "cpu", probablity_of_drop=drop)).mean().item()
    print(f"probability of drop {drop}: {kept:.0%} of the image stays")
    assert abs(kept - drop) < 0.02, "the behaviour changed"

masks = torch.cat([next(mask_generator(400, (224, 224), "cpu"))[:, 0, 112, 40:184] for _ in range(5)])
spread = masks.std(0)  # columns 40 to 183, without the rim
shifts = torch.randint(0, 32, (2000,))
grids = (torch.rand(2000, 1, 1, 8) < 0.5).float()
wide = torch.nn.functional.interpolate(grids, size=(1, 256), mode="bilinear")[:, 0, 0]
right = torch.stack([mask[40 + shift : 184 + shift] for mask, shift in zip(wide, shifts)]).std(0)
for name, values in (("relax-xai", spread), ("shifted by up to a cell", right)):
    print(f"{name}: masks vary by {values.min():.2f} to {values.max():.2f} over the columns")
assert spread.max() - spread.min() > 0.08 and right.max() - right.min() < 0.05, "the behaviour changed"
PYTHON
