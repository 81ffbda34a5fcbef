#!/usr/bin/env bash
# Guess: `shap.maskers.Image("inpaint_telea", …)` fills hidden pixels from their neighbours and leaves the others alone.
# Behaviour: with shap 0.51.0 it converts the image to bytes first. Of an image in [0, 1], every pixel becomes 0, the
#   kept ones included, without a warning; of an image in [0, 255], kept pixels lose their fractions. `blur(…)` is right.
# Cause: `x.reshape(…).astype(np.uint8)` in `Image.inpaint` (shap/maskers/_image.py).
# Why it matters: networks usually get images in [0, 1] or normalised ones. All masks then show the network the same
#   black image, and Shapley values of superpixels are about nothing.
# Versions: shap 0.51.0, opencv-python-headless 5.0.0.93, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q shap==0.51.0 opencv-python-headless==5.0.0.93 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import shap

image = np.random.default_rng(0).random((12, 12, 3))
kept = np.ones(image.size, bool)
kept[:60] = False
for scale in (1, 255):
    for kind, expected in (("inpaint_telea", True), ("inpaint_ns", True), ("blur(3,3)", False)):
        shown = shap.maskers.Image(kind, shape=image.shape)(kept, scale * image)[0][0].ravel()
        change = np.abs(shown - scale * image.ravel())[kept].max()
        print(f"{kind}, values up to {scale}: kept pixels change by up to {change:.3f}, the mean is {shown.mean():.3f}")
        assert (change > 0.9) == expected, "the behaviour changed"
        assert (shown.max() == 0) == (expected and scale == 1), "the behaviour changed"
PYTHON
