#!/usr/bin/env bash
# Guess: `SSIM(data_range=1.0, kernel_size=k, gaussian=False)` of ignite compares means, variances and covariances of
#   windows of k x k pixels, as scikit-image does with `win_size=k`.
# Behaviour: with pytorch-ignite 0.5.5 windows have five pixels a side for every k from 5 on: 5, 7, 11, the default, and
#   21 give one number, to the last bit. For k = 3 the weights of a window sum to .36, and "variances" are none: an
#   image and a noisy copy have .96 instead of .87. Equal images have 1 everywhere. The Gaussian window is right.
# Cause: `_uniform` (ignite/metrics/ssim.py) fills the five values around the middle with 1 / 5, whatever `kernel_size`
#   is.
# Why it matters: maps, and images after a perturbation, are compared with a stated window that nothing reads, and small
#   maps, such as CAMs of 7 x 7, for which 3 is the obvious choice, look alike.
# Versions: pytorch-ignite 0.5.5, torch 2.13.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pytorch-ignite==0.5.5 torch==2.13.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch
from ignite.metrics import SSIM
from scipy.ndimage import uniform_filter

generator = np.random.default_rng(0)
image = generator.random((64, 64))
noisy = 0.7 * image + 0.3 * generator.random((64, 64))


def compute_ssim(size, other):
    """Return ignite's SSIM of the image and `other` with a uniform window."""
    metric = SSIM(data_range=1.0, kernel_size=size, gaussian=False)
    metric.update(tuple(torch.from_numpy(pixels)[None, None] for pixels in (image, other)))
    return metric.compute()


def compute_by_hand(size, other):
    """Return the SSIM from its definition; the border is mirrored as in ignite."""
    means = [uniform_filter(pixels, size, mode="mirror") for pixels in (image, other)]
    products = [image * image, other * other, image * other]
    squares = [uniform_filter(product, size, mode="mirror") for product in products]
    variances = squares[0] - means[0] ** 2 + squares[1] - means[1] ** 2
    covariance = squares[2] - means[0] * means[1]
    luminance = (2 * means[0] * means[1] + 0.01**2) / (means[0] ** 2 + means[1] ** 2 + 0.01**2)
    return (luminance * (2 * covariance + 0.03**2) / (variances + 0.03**2)).mean()


found = {size: compute_ssim(size, noisy) for size in (3, 5, 7, 11, 21)}
right = {size: compute_by_hand(size, noisy) for size in found}
for size in found:
    print(f"window {size}: {found[size]:.4f}, by definition {right[size]:.4f}")
assert abs(found[5] - right[5]) < 1e-6 and len({round(value, 4) for value in right.values()}) == 5
assert all(abs(compute_ssim(size, image) - 1) < 1e-6 for size in found)
assert found[5] == found[7] == found[11] == found[21], "the behaviour changed"
assert found[3] > right[3] + 0.05, "the behaviour changed"
PYTHON
