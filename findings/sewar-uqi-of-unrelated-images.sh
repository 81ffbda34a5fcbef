#!/usr/bin/env bash
# Guess: the universal image quality index is the mean over windows of correlation, luminance and contrast, so two
#   images of unrelated noise have 0, and an image and its negative -1.
# Behaviour: with sewar 0.4.10 unrelated noise has .74 and the negative .48. A copy with a fifth of the contrast has .90
#   and not .38. Structure hardly counts. Equal images have 1.
# Cause: `_uqi_single` (sewar/full_ref.py) calls `uniform_filter`, which is a mean, where its formula, with N times the
#   sum of products minus the product of sums, needs sums. What is subtracted is too small by the factor N, 64 pixels.
# Why it matters: restored, generated or perturbed images, and maps of two networks, are called alike if their
#   brightness is. Values cannot be compared with those of the paper or of another implementation.
# Versions: sewar 0.4.10, scipy 1.17.1, pillow 13.0.0, numpy 2.4.6. Symptom: https://github.com/lanha/DSen2/issues/11.
#   The paper: https://ece.uwaterloo.ca/~z70wang/publications/uqi.html.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q sewar==0.4.10 scipy==1.17.1 pillow==13.0.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sewar.full_ref import uqi


def compute_index(one, other):
    """Return the mean index of all windows of 8 x 8 pixels, from its definition."""
    one, other = (sliding_window_view(image.astype(float), (8, 8)).reshape(-1, 64) for image in (one, other))
    means = one.mean(1), other.mean(1)
    covariance = ((one - means[0][:, None]) * (other - means[1][:, None])).mean(1)
    luminance = means[0] * means[1] / (means[0] ** 2 + means[1] ** 2)
    return (4 * covariance * luminance / (one.var(1) + other.var(1))).mean()


generator = np.random.default_rng(0)
image, unrelated = generator.integers(0, 256, (2, 128, 128), dtype=np.uint8)
flat = (127 + 0.2 * (image - 127.0)).round().astype(np.uint8)
pairs = {"the same image": image, "unrelated noise": unrelated, "the negative": 255 - image, "less contrast": flat}
found = {name: (uqi(image, other), compute_index(image, other)) for name, other in pairs.items()}
for name, (index, right) in found.items():
    print(f"{name}: {index:.2f}, by definition {right:.2f}")
assert found["the same image"] == (1, 1)
assert abs(found["unrelated noise"][1]) < 0.02 and found["the negative"][1] < -0.95
assert found["unrelated noise"][0] > 0.5 and found["the negative"][0] > 0.3, "the behaviour changed"
assert found["less contrast"][0] > 2 * found["less contrast"][1], "the behaviour changed"
PYTHON
