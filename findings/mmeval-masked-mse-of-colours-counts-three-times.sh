#!/usr/bin/env bash
# Guess: `MeanSquaredError` of mmeval, given colour images and a mask of one channel, is the mean over the masked pixels, as
#   `MeanAbsoluteError` beside it, which takes the same three arrays.
# Behaviour: with mmeval 0.2.1 it is three times the mean. Images that differ by .2 everywhere have .04 without a mask and .12
#   with a mask of ones; black and white ones have 3, though no squared difference of numbers in [0, 1] is above 1. With the
#   mask repeated for each channel it is right, and the mean absolute error is right with both.
# Cause: `compute_mse` (mmeval/metrics/mse.py) divides the sum over pixels and channels by the sum of the mask;
#   `compute_mae` (mae.py) multiplies the latter by the number of channels.
# Why it matters: masked errors score what was filled in behind a mask, such as pixels that an explanation had removed.
#   They are compared with errors of whole images and of grey ones, and the root of the error is 1.7 times the true one.
# Versions: mmeval 0.2.1, numpy 2.4.6, opencv-python-headless 5.0.0.93.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 scipy==1.17.1 opencv-python-headless==5.0.0.93 plum-dispatch==1.7.4 \
    PyYAML==6.0.4 rich==15.0.0
"$folder/venv/bin/pip" install -q --no-deps mmeval==0.2.1 # it names the OpenCV with windows
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from mmeval import MeanAbsoluteError, MeanSquaredError

half = np.zeros((1, 32, 32, 1))
half[:, :16] = 1
for low, high in ((100, 151), (0, 255)):
    images = [np.full((1, 32, 32, 3), level, np.uint8) for level in (low, high)]
    share = (high - low) / 255
    for name, mask in (("no mask", None), ("ones", np.ones_like(half)), ("half of the image", half)):
        squared, absolute = MeanSquaredError()(*images, mask)["mse"], MeanAbsoluteError()(*images, mask)["mae"]
        print(f"{low} and {high}, {name}: mse {squared:.3f}, mae {absolute:.3f}; the squared difference is {share**2:.3f}")
        assert abs(absolute - share) < 1e-6
        assert abs(squared - share**2 * (1 if mask is None else 3)) < 1e-6, "the behaviour changed"
    assert abs(MeanSquaredError()(*images, half.repeat(3, axis=3))["mse"] - share**2) < 1e-6
PYTHON
