#!/usr/bin/env bash
# Guess: FSIM compares phase congruency and the length of the gradient (Scharr), so a pair of images and its mirror image
#   have one value, as both parts do not know left from right, and an edge of 64 levels has four times the gradient of
#   one of 16.
# Behaviour: with image-similarity-measures 0.3.6 a pair of images has .67, its mirror image .64, upside down .65 and
#   turned .63. An edge from bright to dark has the gradient 0, and so has every edge of 16, 32, 48 to 240 levels; one of 8 has
#   128, and so have 24, 40 and 248. With signed floats it is .74 in all four positions.
# Cause: `_gradient_magnitude` (image_similarity_measures/quality_metrics.py, line 81) asks OpenCV for unsigned 16-bit
#   results, which cut negative gradients to 0, and squares them as such: `scharrx**2` keeps the remainder by 65,536.
# Why it matters: half of FSIM is made of these gradients. It scores images after removal and inpainting, and augmented
#   test sets score otherwise. Images of floats are no way out: OpenCV refuses them for unsigned results.
# Versions: image-similarity-measures 0.3.6, phasepack 1.5, opencv-python-headless 4.11.0.86, scikit-image 0.20.0,
#   numpy 1.26.4, scipy 1.11.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q phasepack==1.5 opencv-python-headless==4.11.0.86 scikit-image==0.20.0 numpy==1.26.4 \
    scipy==1.11.4
"$folder/venv/bin/pip" install -q --no-deps image-similarity-measures==0.3.6 # it names OpenCV with windows
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import cv2
import numpy as np
from image_similarity_measures import quality_metrics

library = quality_metrics._gradient_magnitude
for levels in (8, 16, 24, 32, 48, 64, 240, 248):
    edge = np.zeros((8, 8), np.uint8)
    edge[:, 4:] = levels
    rising, falling = (library(np.ascontiguousarray(image), cv2.CV_16U).max() for image in (edge, edge[:, ::-1]))
    print(f"an edge of {levels} levels: gradient {rising:.0f} from dark to bright, {falling:.0f} from bright to dark")
    assert (rising, falling) == (128 if levels % 16 else 0, 0), "the behaviour changed"

generator = np.random.default_rng(0)
first = np.kron(generator.integers(0, 256, (16, 16)), np.ones((4, 4)))[..., None].astype(np.uint8)
second = np.clip(first + generator.normal(0, 20, first.shape), 0, 255).astype(np.uint8)
for name, gradient in (("the library", library), ("signed floats", lambda image, depth: library(image, cv2.CV_64F))):
    quality_metrics._gradient_magnitude = gradient
    found = []
    for rows, columns in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        pair = (np.ascontiguousarray(image[::rows, ::columns]) for image in (first, second))
        found.append(float(quality_metrics.fsim(*pair)))
    print(f"{name}: FSIM {found[0]:.3f}, mirrored {found[1]:.3f}, upside down {found[2]:.3f}, both {found[3]:.3f}")
    assert (np.ptp(found) > 0.02) == (gradient is library), "the behaviour changed"
PYTHON
