#!/usr/bin/env bash
# Guess: `GradientSaliency.GetSmoothedMask` of the SmoothGrad authors' library is SmoothGrad: the mean of noisy gradients.
# Behaviour: with saliency 0.2.1 it is the mean of *squared* noisy gradients, SmoothGrad-Squared, unless
#   `magnitude=False` is passed. For a linear network SmoothGrad is the gradient; the mask is its square, without signs.
# Cause: `magnitude=True` in `CoreSaliency.GetSmoothedMask` (saliency/core/base.py); its docstring calls the mask
#   "smoothed with the SmoothGrad method".
# Why it matters: Hooker et al. 2019 find SmoothGrad worse and SmoothGrad-Squared better than a random ranking. Rows named
#   SmoothGrad in two papers can be these two estimators (`sg-grad` and `sgsq-grad` in roarbench).
# Versions: saliency 0.2.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q saliency==0.2.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import saliency.core as saliency

gradient = np.array([[-2.0, -0.5], [0.25, 1.0]], np.float32)


def call_linear_network(images, call_model_args=None, expected_keys=None):
    return {saliency.base.INPUT_OUTPUT_GRADIENTS: np.broadcast_to(gradient, images.shape)}


image = np.arange(4, dtype=np.float32).reshape(2, 2)
mask = saliency.GradientSaliency().GetSmoothedMask(image, call_linear_network)
plain = saliency.GradientSaliency().GetSmoothedMask(image, call_linear_network, magnitude=False)
print(f"gradient {gradient.ravel()}, smoothed mask {mask.ravel()}, with magnitude=False {plain.ravel()}")
assert np.allclose(plain, gradient) and np.allclose(mask, gradient**2), "the behaviour changed"
PYTHON
