#!/usr/bin/env bash
# Guess: `msssim` of sewar, the multi-scale structural similarity, halves images in the plane and compares each colour
#   for itself, as `ssim` of sewar does, so the order of the channels means nothing, RGB or BGR.
# Behaviour: with sewar 0.4.10 the order counts. An image with noise in its first channel has .943, and the same pair
#   with reversed channels has .984; noise in the last one .975 and .927. The mean of its three channels, each as a grey
#   image, is .964 and .938. `ssim` and `vifp` of sewar do not change. The reversal turns round which of two copies is
#   better.
# Cause: `uniform_filter(im, 2)` (sewar/full_ref.py) runs over all three axes of the image, so at each of four halvings
#   a channel is also averaged with the one before it; the first channel stays as it is, the last one takes in all
#   others.
# Why it matters: OpenCV loads BGR and other programs RGB, so one pair of files has two values. Noise of single colours
#   is averaged out in the coarse scales, which weigh most, and colour errors of opposite signs vanish. Bands of
#   satellites have an order, too.
# Versions: sewar 0.4.10, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile sewar==0.4.10 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from scipy.ndimage import gaussian_filter
from sewar.full_ref import msssim, ssim, vifp

generator = np.random.default_rng(0)
image = np.stack([gaussian_filter(generator.normal(size=(256, 256)), width) for width in (1, 2, 4)], -1)
image = ((image - image.min((0, 1))) / np.ptp(image, (0, 1)) * 255).round().astype(np.uint8)


def score(metric, copy):
    """Return a metric of the colours as they are, of the reversed ones, and its mean over channels."""
    reverse = metric(image[..., ::-1].copy(), copy[..., ::-1].copy())
    channels = [metric(image[..., channel], copy[..., channel]) for channel in range(3)]
    return np.array([metric(image, copy), reverse, np.mean(channels)])


found = []
for noisy in range(3):
    copy = image.astype(float)
    copy[..., noisy] += 30 * generator.normal(size=(256, 256))
    copy = copy.clip(0, 255).astype(np.uint8)
    found.append(score(msssim, copy))
    others = [score(lambda one, two: ssim(one, two)[0], copy), score(vifp, copy)]
    print(f"noise in channel {noisy}: MS-SSIM {found[-1][0]:.3f}, reversed channels {found[-1][1]:.3f}, mean of "
          f"channels {found[-1][2]:.3f}; SSIM {others[0].round(3)}, VIF {others[1].round(3)}")
    assert all(np.ptp(values) < 1e-9 for values in others)
first, _, last = found
assert first[1] - first[0] > 0.03 and last[0] - last[1] > 0.03, "the behaviour changed"
assert last[0] > first[0] and last[1] < first[1], "the behaviour changed"
PYTHON
