#!/usr/bin/env bash
# Guess: the visual information fidelity (VIF) of torchmetrics compares an image with its reference in any unit that both
#   share, so images in [0, 1], as networks take them, have the value of their bytes; otherwise it would ask for the range.
# Behaviour: with torchmetrics 1.9.0 it is another metric in [0, 1], with another order. A copy with strong noise (standard
#   deviation .2) has .82, a blurred one .84 and one with half of the contrast .25. In bytes they have .19, .80 and
#   .80, and so they have in sewar. Noise of .05 has .98 instead of .49.
# Cause: `_vif_per_channel` (torchmetrics/functional/image/vif.py) adds the noise of the eye with a variance of 2, that of
#   the paper for bytes; next to variances of [0, 1] only it counts. `sigma_n_sq=2 / 255**2` is right for [0, 1].
#   A `data_range` was taken out before the first release; the issue
#   https://github.com/Lightning-AI/torchmetrics/issues/3184 names the lines on it that stayed in the documentation.
# Why it matters: the values lie in [0, 1] and fall with the damage, so nothing looks wrong, while noise is forgiven and
#   contrast is not. The metrics beside it, SSIM and PSNR, get `data_range=1.0` for the same tensors.
# Versions: torchmetrics 1.9.0, sewar 0.4.10, torch 2.13.0, scipy 1.17.1, pillow 13.0.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 sewar==0.4.10 torch==2.13.0 scipy==1.17.1 pillow==13.0.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from sewar.full_ref import vifp
from torch.nn.functional import conv2d, interpolate, pad
from torchmetrics.functional.image import visual_information_fidelity

generator = torch.Generator().manual_seed(0)
image = interpolate(torch.rand(1, 1, 24, 24, generator=generator), size=128, mode="bicubic").clamp(0, 1)
noise = torch.randn(image.shape, generator=generator)
weights = torch.tensor([1.0, 7.4, 12.2, 7.4, 1.0]) / 29  # a Gaussian with a standard deviation of 1
blurred = conv2d(conv2d(pad(image, [2] * 4, mode="reflect"), weights.view(1, 1, 1, 5)), weights.view(1, 1, 5, 1))
copies = {
    "noise of .05": (image + 0.05 * noise).clamp(0, 1),
    "noise of .2": (image + 0.2 * noise).clamp(0, 1),
    "blurred": blurred,
    "half of the contrast": 0.25 + 0.5 * image,
}
found = {}
for name, copy in copies.items():
    shares, in_bytes = (visual_information_fidelity(copy * unit, image * unit).item() for unit in (1, 255))
    scaled = visual_information_fidelity(copy, image, sigma_n_sq=2 / 255**2).item()
    by_sewar = vifp(*(255 * pixels[0, 0].double().numpy() for pixels in (image, copy)))
    found[name] = shares, in_bytes
    print(f"{name}: {shares:.2f} in [0, 1], {in_bytes:.2f} in bytes, sewar {by_sewar:.2f}, scaled noise {scaled:.2f}")
    assert abs(in_bytes - by_sewar) < 1e-3 and abs(scaled - in_bytes) < 1e-3
shares, in_bytes = (sorted(found, key=lambda name: found[name][place]) for place in (0, 1))
print(f"from worst to best, in [0, 1]: {shares}\nfrom worst to best, in bytes: {in_bytes}")
assert shares != in_bytes and found["noise of .2"][0] > found["half of the contrast"][0] + 0.4, "the behaviour changed"
assert found["noise of .2"][1] < found["half of the contrast"][1] - 0.4
PYTHON
