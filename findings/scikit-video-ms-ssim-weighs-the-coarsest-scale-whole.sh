#!/usr/bin/env bash
# Guess: `skvideo.measure.msssim` is the multi-scale SSIM of Wang et al. (2003), a product of five scales with the exponents
#   .0448, .2856, .3001, .2363 and .1333; with `method="sum"` their weighted mean, so equal videos have 1 both times.
# Behaviour: with scikit-video 1.1.11 the coarsest scale has the exponent 1. Noise, which the coarsest scale hardly sees, has
#   .70 where .72 is due; blotches of 32 pixels have .05 where .39 is due. The sum of equal videos is 1.87, and noise has
#   1.62 in it.
# Cause: `np.product(overall_mssim1) * mssim_array` (skvideo/measure/msssim.py) takes the last scale as it is; the MATLAB
#   code that goes with the paper has `mssim_array(level).^weight(level)` there, and a weight in the sum, too.
# Why it matters: the number is put beside those of other packages for networks that compress, restore or predict videos. It is
#   lower, and not by a constant: it punishes what changes large areas, as flicker and shifts of brightness.
# Versions: scikit-video 1.1.11, numpy 2.4.6, scipy 1.17.1, pillow 13.0.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-video==1.1.11 numpy==2.4.6 scipy==1.17.1 pillow==13.0.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np

np.int, np.float, np.product = int, float, np.prod  # names that the package uses, of numpy before 1.24
import skvideo.measure
from scipy.ndimage import gaussian_filter, uniform_filter

WEIGHTS = np.array([0.0448, 0.2856, 0.3001, 0.2363, 0.1333])


def compute_by_hand(one, two):
    """Return the product and the weighted mean of the scales, from the package's own SSIM of each."""
    scales = []
    for level in range(5):
        ssim, _, contrast, _ = skvideo.measure.ssim_full(one, two)
        scales.append(ssim[0] if level == 4 else contrast[0])
        one, two = (uniform_filter(image, 2)[1:, 1:][::2, ::2] for image in (one, two))
    return np.prod(scales**WEIGHTS), np.dot(scales, WEIGHTS) / WEIGHTS.sum()


generator = np.random.default_rng(0)
frame = gaussian_filter(generator.normal(size=(256, 256)), 3)
frame = np.round(255 * (frame - frame.min()) / np.ptp(frame))
blotches = np.kron(generator.choice([-80, 80], (8, 8)), np.ones((32, 32)))
frames = {
    "equal": frame,
    "noise": np.clip(frame + generator.normal(0, 60, frame.shape), 0, 255).round(),
    "blotches": np.clip(frame + blotches, 0, 255),
}
found = {}
for name, other in frames.items():
    one, two = (values.astype(np.float32) for values in (frame, other))
    product, total = (skvideo.measure.msssim(one, two, method=method)[0] for method in ("product", "sum"))
    right, mean = compute_by_hand(one, two)
    found[name] = product, right, total, mean
    print(f"{name:8}: product {product:.2f}, by hand {right:.2f}; sum {total:.2f}, by hand {mean:.2f}")
assert abs(found["equal"][1] - 1) < 1e-4 and abs(found["equal"][3] - 1) < 1e-4
assert abs(found["equal"][2] - 1.8667) < 0.001, "the behaviour changed"
assert found["noise"][2] > 1.5 and found["noise"][0] > found["noise"][1] - 0.05
assert found["blotches"][0] < found["blotches"][1] - 0.2
PYTHON
