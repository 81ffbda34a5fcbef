#!/usr/bin/env bash
# Guess: the errors of pymia's continuous metrics are those of the numbers in both images: an image of bytes that is one
#   too bright everywhere has a mean absolute error of 1, as one that is one too dark.
# Behaviour: with pymia 0.3.4 one too bright is an error of 255, one too dark of 1. The mean squared error of both is 1,
#   and of an image that is 16 too bright 0, so the worse one is perfect; its normalised error is 0 too. The signal to
#   noise ratio, in the same table, is right.
# Cause: `calculate` of `MeanAbsoluteError`, `MeanSquaredError` and its roots (pymia/evaluation/metric/continuous.py)
#   subtract and square arrays as they come, in bytes, modulo 256; the ratio is computed by skimage, which converts
#   first.
# Why it matters: reconstructed and inpainted images are saved and read as bytes. Squared errors of 16 vanish, small
#   ones towards bright are the largest that there are, and all values stay in the range of plausible ones.
# Versions: pymia 0.3.4, SimpleITK 2.5.3, scikit-image 0.26.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q SimpleITK==2.5.3 scikit-image==0.26.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps pymia==0.3.4
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from pymia.evaluation.metric import continuous

METRICS = {
    "mean absolute": continuous.MeanAbsoluteError,
    "mean squared": continuous.MeanSquaredError,
    "normalised root": continuous.NormalizedRootMeanSquaredError,
    "signal to noise": continuous.PeakSignalToNoiseRatio,
}
reference = np.random.default_rng(0).integers(20, 200, (64, 64)).astype(np.uint8)


def measure(shift, kind):
    """Return the metrics of an image that is brighter by this shift, if both images are of this type."""
    values = {}
    for name, metric in METRICS.items():
        made = metric()
        made.reference, made.prediction = reference.astype(kind), (reference.astype(int) + shift).astype(kind)
        values[name] = float(made.calculate())
    return values


for shift in (-1, 1, 16):
    for kind in (np.uint8, float):
        print(f"{shift:+}, {np.dtype(kind)}:", {name: round(value, 3) for name, value in measure(shift, kind).items()})
assert measure(-1, float)["mean absolute"] == measure(1, float)["mean absolute"] == 1
assert measure(16, float)["mean squared"] == 256
assert measure(16, np.uint8)["signal to noise"] == measure(16, float)["signal to noise"]
assert measure(1, np.uint8)["mean absolute"] == 255, "the behaviour changed"
assert measure(16, np.uint8)["mean squared"] == 0, "the behaviour changed"
PYTHON
