#!/usr/bin/env bash
# Guess: `RISE.attribute(…, baselines=…)` of captum-rise fills hidden pixels with the baseline, as `baselines` does in
#   all of captum's attributions, of which its class is one.
# Behaviour: with captum-rise 1.0 hidden pixels are black, whatever the baseline: with baselines 0, 1 and the image
#   itself, which hides nothing, the maps are equal to the last digit. For a network that counts dark pixels, a dark
#   square on white has 1.25 times the importance of the rest if hidden pixels are white, and 1.02 with `baselines=1`.
# Cause: `attribute` (rise.py) multiplies images by masks; its argument `baselines` is never read.
# Why it matters: for digits on white, X-rays and normalised images black is a strong signal or an ordinary grey.
#   A comparison of baselines finds that RISE does not depend on them.
# Versions: captum-rise 1.0, captum 0.9.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q captum-rise==1.0 captum==0.9.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from rise import RISE, MaskSetConfig, generate_mask_sets

image = torch.ones(1, 1, 32, 32)
image[..., 8:16, 8:16] = 0.1


def count_dark(images):
    return (images < 0.5).float().mean(dim=(1, 2, 3))[:, None]


def explain(baseline):
    torch.manual_seed(0)
    return RISE(count_dark).attribute(image, 2000, ((8, 8),), baselines=baseline, target=0)


def explain_by_hand(baseline):
    """Compute the mean of masks, weighted by the output for the image behind each mask, filled with the baseline."""
    torch.manual_seed(0)
    masks = generate_mask_sets(2000, MaskSetConfig.from_input((image,), ((8, 8),)))
    return sum(count_dark(mask * image + (1 - mask) * baseline) * mask / 2000 for (mask,) in masks)[None]


def compare(heatmap):
    """Return the mean over the square, over that of the rest."""
    square = torch.zeros(32, 32, dtype=torch.bool)
    square[8:16, 8:16] = True
    heatmap = heatmap.reshape(32, 32)
    return float(heatmap[square].mean() / heatmap[~square].mean())


maps = [explain(baseline) for baseline in (0, 1, image)]
assert all(torch.equal(other, maps[0]) for other in maps), "the behaviour changed"
torch.testing.assert_close(maps[0].flatten(), explain_by_hand(0).flatten(), rtol=0, atol=1e-4)
white = explain_by_hand(1)
print(f"dark square over the rest: {compare(maps[1]):.2f} with baselines=1; by hand {compare(white):.2f} with white")
assert compare(white) > compare(maps[1]) + 0.02, "the behaviour changed"
PYTHON
