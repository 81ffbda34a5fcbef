#!/usr/bin/env bash
# Guess: SR-SIM of piq compares each image with its own reference, so with `reduction="none"` a pair has one score,
#   alone or in a batch.
# Behaviour: with piq 0.8.0 the other pairs of the batch change it. Of 16 equally noisy images, scores are .77 to .88 alone
#   and .85 to .88 in one batch; one moves by .09. Of images with rising noise the worst has .52 alone and .64 beside the
#   others. A grey pair as neighbour, which is equal to its reference, takes .98 down to .92. FSIM, VSI, DSS, GMSD, HaarPSI
#   and MDSI of the same library do not change.
# Cause: `_spectral_residual_visual_saliency` (piq/srsim.py) stretches saliency maps to [0, 1] by the smallest and the
#   largest value of the whole batch. A constant is added to gradients and saliencies in the comparison, so their scale
#   counts.
# Why it matters: restored and perturbed images are scored in batches. The size of the batch, the order of the images and
#   the smaller last batch change the mean, and an outlier makes its neighbours look alike.
# Versions: piq 0.8.0, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q piq==0.8.0 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import piq
import torch

generator = torch.Generator().manual_seed(0)
images = torch.rand(16, 3, 16, 16, generator=generator)
images = torch.nn.functional.interpolate(images, size=224, mode="bicubic").clamp(0, 1)
noise = torch.randn(images.shape, generator=generator)


def score(metric, copies, references):
    """Return the scores of the pairs alone, and in one batch."""
    settings = {"data_range": 1.0, "reduction": "none"}
    pairs = zip(copies.split(1), references.split(1))
    alone = torch.cat([metric(copy, reference, **settings).reshape(1) for copy, reference in pairs])
    return alone, metric(copies, references, **settings).reshape(-1)


copies = (images + 0.1 * noise).clamp(0, 1)
alone, together = score(piq.srsim, copies, images)
print(f"equal noise: alone {alone.min():.2f} to {alone.max():.2f}, in a batch {together.min():.2f} to {together.max():.2f}")
change = (alone - together).abs().max()
print(f"largest change: {change:.2f}")
assert change > 0.05, "the behaviour changed"

rising = (images + torch.linspace(0.02, 0.3, 16).view(16, 1, 1, 1) * noise).clamp(0, 1)
alone, together = score(piq.srsim, rising, images)
print(f"rising noise: lowest score alone {alone.min():.2f}, in a batch {together.min():.2f}")
assert together.min() > alone.min() + 0.1, "the behaviour changed"

grey = torch.full_like(images[:1], 0.5)
alone, together = score(piq.srsim, torch.cat([rising[:1], grey]), torch.cat([images[:1], grey]))
print(f"beside a grey pair: {alone[0]:.2f} becomes {together[0]:.2f}")
assert together[0] < alone[0] - 0.03, "the behaviour changed"

for metric in (piq.fsim, piq.vsi, piq.dss, piq.gmsd, piq.haarpsi, piq.mdsi):
    alone, together = score(metric, copies, images)
    assert (alone - together).abs().max() < 1e-5, metric.__name__
PYTHON
