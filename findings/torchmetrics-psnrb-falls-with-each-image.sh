#!/usr/bin/env bash
# Guess: the peak signal-to-noise ratio with block effects (PSNR-B) of torchmetrics is a mean over images, so an image and
#   a hundred copies of it have the same value, and it is at most some decibels below the plain PSNR.
# Behaviour: with torchmetrics 1.9.0 it falls with each image. A JPEG image of quality 10 with a PSNR of 29.5 dB has 23.5 dB;
#   ten copies have 14.6, a hundred 4.8 and a thousand -5.2, in one batch and one by one. 200 different images
#   with 22 to 24 dB each have 2.1 together; with 27 to 34 dB each, of quality 30, they have 10.
# Cause: `_psnrb_compute` (torchmetrics/functional/image/psnrb.py) divides the squared errors by the number of pixels, but
#   adds the block effect as it is, and that is the sum over all images that were seen.
# Why it matters: PSNR-B is reported for compressed and restored images. The number says how large the test set is; two
#   test sets cannot be compared, and in training it falls during each epoch. Images without block effects hide it.
# Versions: torchmetrics 1.9.0, torch 2.13.0, pillow 13.0.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 pillow==13.0.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import io

import numpy as np
import torch
from PIL import Image
from torchmetrics.image import PeakSignalNoiseRatioWithBlockedEffect

generator = torch.Generator().manual_seed(0)
images = torch.nn.functional.interpolate(torch.rand(200, 1, 12, 12, generator=generator), size=64, mode="bicubic")
images = (images.clamp(0, 1) * 255).round() / 255


def compress(image, quality):
    file = io.BytesIO()
    Image.fromarray((image[0] * 255).byte().numpy()).save(file, "JPEG", quality=quality)
    return torch.from_numpy(np.array(Image.open(file)))[None] / 255


def measure(copies, references, batch_size):
    metric = PeakSignalNoiseRatioWithBlockedEffect(data_range=1.0)
    for copy, reference in zip(copies.split(batch_size), references.split(batch_size)):
        metric.update(copy, reference)
    return metric.compute().item()


def measure_by_hand(copy, reference):
    """Return PSNR and PSNR-B of one image, by Yim and Bovik (2011)."""
    (rows, columns), error = copy.shape[1:], ((copy - reference) ** 2).mean().item()
    steps = [(copy[0, 1:] - copy[0, :-1]) ** 2, ((copy[0, :, 1:] - copy[0, :, :-1]) ** 2).T]
    at_borders = [torch.arange(len(step)) % 8 == 7 for step in steps]
    border = torch.cat([step[at].flatten() for step, at in zip(steps, at_borders)]).mean().item()
    inside = torch.cat([step[~at].flatten() for step, at in zip(steps, at_borders)]).mean().item()
    effect = max(0, border - inside) * np.log2(8) / np.log2(min(rows, columns))
    return -10 * np.log10(error), -10 * np.log10(error + effect)


blocky = {quality: torch.stack([compress(image, quality) for image in images]) for quality in (10, 30)}
plain, by_hand = measure_by_hand(blocky[10][0], images[0])
print(f"one image: PSNR {plain:.1f}, PSNR-B by hand {by_hand:.1f}")
falling = []
for count in (1, 10, 100, 1000):
    copies = [stack[:1].expand(count, -1, -1, -1) for stack in (blocky[10], images)]
    in_one, one_by_one = measure(*copies, count), measure(*copies, 1)
    print(f"{count} copies: {in_one:.1f} in one batch, {one_by_one:.1f} one by one")
    assert abs(in_one - one_by_one) < 0.01
    falling.append(in_one)
assert abs(falling[0] - by_hand) < 1
assert falling[0] > falling[1] + 5 > falling[2] + 10 and falling[3] < 0, "the behaviour changed"
for quality, copies in blocky.items():
    alone = [measure_by_hand(copy, image)[1] for copy, image in zip(copies, images)]
    here = measure(copies, images, 50)
    print(f"200 images of quality {quality}: {min(alone):.0f} to {max(alone):.0f} by hand, here {here:.1f}")
    assert here < min(alone) - 5, "the behaviour changed"
PYTHON
