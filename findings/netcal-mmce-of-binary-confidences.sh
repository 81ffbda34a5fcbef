#!/usr/bin/env bash
# Guess: the maximum mean calibration error (MMCE) of netcal is near 0 for calibrated probabilities, whether they come
#   as one column, the probability of class 1 ("1-D for binary classification"), or as two.
# Behaviour: with netcal 1.4.0, 3,000 calibrated probabilities have .215 in one column and .006 in two. A network that
#   is sure by .9 and right in 70 % of cases has .211 in two columns, so it looks better calibrated. More images lower
#   nothing in one column, and the ECE of the same package is .018 for either form.
# Cause: `MMCE.measure` (netcal/metrics/confidence/MMCE.py) takes the probability of class 1 as the confidence, but the
#   predicted class, 0 below .5, as the prediction, so an image of class 0 with .1 counts as right with a confidence of
#   .1; two columns take the larger probability.
# Why it matters: sigmoid outputs are one column. A sigmoid network's MMCE is that of its spread of probabilities, and
#   calibration by temperature seems to fail.
# Versions: netcal 1.4.0, torch 2.13.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q netcal==1.4.0 torch==2.13.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from netcal.metrics import ECE, MMCE

generator = np.random.default_rng(0)


def compute_mmce(confidences, right):
    """Compute the root of the mean of r_i r_j k(c_i, c_j), where r is right - confidence and k a Laplacian kernel."""
    residuals = right - confidences
    kernel = np.exp(-2.5 * np.abs(confidences[:, None] - confidences))
    return np.sqrt((residuals[:, None] * residuals * kernel).mean())


for images in (300, 3000):
    positive = generator.random(images)
    labels = (generator.random(images) < positive).astype(int)
    both = np.stack([1 - positive, positive], axis=1)
    one, two = MMCE().measure(positive, labels), MMCE().measure(both, labels)
    errors = ECE(10).measure(positive, labels), ECE(10).measure(both, labels)
    print(f"{images} calibrated, one column and two: MMCE {one:.3f}, {two:.3f}; ECE {errors[0]:.3f}, {errors[1]:.3f}")
    assert np.isclose(two, compute_mmce(both.max(axis=1), (positive > 0.5) == labels), atol=1e-6)
    assert compute_mmce(positive, labels) < 0.06, "of class 1 itself"
    assert one > 0.15 and two < 0.06 and max(errors) < 0.12, "the behaviour changed"
sure = np.full(3000, 0.9)
labels = (generator.random(3000) < 0.7).astype(int)
bad = MMCE().measure(np.stack([1 - sure, sure], axis=1), labels)
print(f"sure by .9 and right by .7, two columns: {bad:.3f}")
assert bad < one, "the behaviour changed"
PYTHON
