#!/usr/bin/env bash
# Guess: the universal image quality index of an image and its own copy is 1, whatever the image; where it is flat, 0 / 0
#   becomes 1, 0 or NaN.
# Behaviour: with torchmetrics 1.9.0 flat areas have random values. Of photographs in [0, 1] whose upper half is one grey,
#   an image and its copy have -2.00 to .98 here, by the grey; of a flat image and its copy in [0, 255] the index is
#   -5 * 10^10 at worst. Without flat areas it is 1.
# Cause: `_uqi_compute` (torchmetrics/functional/image/uqi.py) cuts variances at 0, and adds an epsilon to the denominator
#   alone. The covariance of a flat window is a rounding error of either sign, which is divided by that epsilon.
# Why it matters: black borders of scans, saturated skies, digits on black and maps after a ReLU are flat. Better copies
#   do not raise their share of the mean, and values change with the processor, the data type and the unit of brightness.
#   The spectral distortion index (D_lambda) and QNR are made of this index.
# Versions: torchmetrics 1.9.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torchmetrics.functional.image import universal_image_quality_index as compare

image = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
assert abs(compare(image, image.clone()).item() - 1) < 1e-3
with_sky, flat = [], []
for grey in torch.linspace(0.05, 1, 20):
    sky = image.clone()
    sky[:, :, :32] = grey
    with_sky.append(compare(sky, sky.clone()).item())
    plain = torch.full((1, 1, 64, 64), 255 * grey.item())
    flat.append(compare(plain, plain.clone()).item())
print(f"half flat, in [0, 1]: {min(with_sky):.2f} to {max(with_sky):.2f}")
print(f"flat, in [0, 255]: {min(flat):.3g} to {max(flat):.3g}")
assert min(with_sky) < 0.9, "the behaviour changed"
assert min(flat) < -1e6, "the behaviour changed"
PYTHON
