#!/usr/bin/env bash
# Guess: `ElasticTransform(alpha=50)` of torchvision, whose `alpha` is the magnitude of displacements, moves pixels by up
#   to 50, or by 50 per cent; a larger `sigma` makes the same displacements smoother.
# Behaviour: with torchvision 0.28.0 the defaults (alpha 50, sigma 5) move pixels by .8 on average (standard deviation
#   along an axis), and none in a hundred by more than 3, on images of 64 and of 512 pixels alike. With sigma 1 the same
#   alpha moves them by 4, with sigma 10 by .4.
# Cause: uniform noise from -1 to 1 is smoothed first, which divides its standard deviation (.58) by about
#   2 sqrt(pi) sigma, and multiplied by alpha / size afterwards, in coordinates that span 2 (v2/_geometry.py).
# Why it matters: robustness of networks and stability of explanations "under elastic deformation" are measured with the
#   defaults on photographs, where nothing visible happens; comparing sigmas compares strengths.
# Versions: torchvision 0.28.0, torch 2.13.0 (CPU).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchvision==0.28.0 torch==2.13.0 pillow==13.0.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from torchvision.transforms import v2

torch.manual_seed(0)


def measure_moves(size, **settings):
    """Return the standard deviation, and the share above 3, of the pixels by which columns move."""
    columns = torch.arange(size, dtype=torch.float64).expand(1, size, size)
    moved = torch.cat([v2.ElasticTransform(**settings)(columns) - columns for _ in range(4)])
    inner = moved[..., 20:-20, 20:-20]  # beyond the border, the transform fills with 0
    return inner.std().item(), (inner.abs() > 3).double().mean().item()


default, above = measure_moves(512)
small, _ = measure_moves(64)
rough, _ = measure_moves(512, alpha=50.0, sigma=1.0)
smooth, _ = measure_moves(512, alpha=50.0, sigma=10.0)
print(f"defaults: {default:.2f} pixels at 512, {small:.2f} at 64; {100 * above:.2f} % above 3")
print(f"sigma 1: {rough:.2f} pixels, sigma 10: {smooth:.2f}")
assert 0.6 < default < 1.2 and 0.6 < small < 1.4 and above < 0.01, "the defaults move more now"
assert rough > 4 * default > 7 * smooth, "the smoothing changes less now"
PYTHON
