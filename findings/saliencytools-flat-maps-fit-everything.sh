#!/usr/bin/env bash
# Guess: `auc_judd` of saliencytools gives a flat map the distance .5, as a map that ranks nothing, and `emd` measures how
#   far the mass of one map has to be moved to become the other.
# Behaviour: with saliencytools 0.35 a flat map has the distance 0 from every reference, the best there is, where random
#   numbers have .5 and a good noisy map .04. A map that is 98 % zeros, the rest noise, has .02, too. `emd` between a map
#   and the same values in random places is 0, and so is that to 1000 times the map plus 5.
# Cause: `_auc_judd_one_direction` counts equal values as won (`searchsorted(…, side="right")`), where the area under the
#   curve counts a half; `emd` compares histograms of values, each from its own smallest to its own largest value, and
#   no places (saliencytools/maskcompare.py).
# Why it matters: maps after a ReLU, and maps of zeros where all weights are negative, win a comparison with fixations or
#   masks; by `emd` any two maps with the same kind of histogram agree.
# Versions: saliencytools 0.35, scikit-learn 1.9.1, scikit-image 0.26.0, scipy 1.17.1, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q saliencytools==0.35 scikit-learn==1.9.1 scikit-image==0.26.0 scipy==1.17.1 torch==2.13.0 \
    numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from saliencytools.maskcompare import auc_judd, emd
from sklearn.metrics import roc_auc_score

generator = np.random.default_rng(0)
reference = np.zeros((28, 28))
reference[8:16, 8:16] = 1 + generator.random((8, 8))
noise = generator.standard_normal(reference.shape)
distances = {}
for name, values in (
    ("noisy reference", reference + noise / 2),
    ("random", noise),
    ("flat", np.zeros(reference.shape)),
    ("98 % zeros, the rest noise", np.maximum(noise - 2, 0)),
):
    distances[name] = auc_judd(values, reference)
    right = 1 - roc_auc_score(reference.reshape(-1) > 0, values.reshape(-1))
    print(f"auc_judd, {name}: {distances[name]:.2f}, with ties by halves {right:.2f}")
good, random, flat, sparse = distances.values()
assert flat == 0 < good < 0.1 and sparse < 0.1 and 0.4 < random < 0.6, "the behaviour changed"
values = generator.exponential(size=(28, 28))
for name, other in (
    ("in random places", generator.permutation(values.reshape(-1)).reshape(28, 28)),
    ("times 1000 plus 5", 1000 * values + 5),
):
    found = emd(values, other)
    print(f"emd, a map and the same values {name}: {found:.2g}")
    assert found < 0.1, "the behaviour changed"
PYTHON
