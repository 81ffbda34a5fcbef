#!/usr/bin/env bash
# Guess: `skimage.measure.shannon_entropy` of an attribution map is low if few pixels have all the attribution, and high
#   if it is spread evenly: the entropy by which maps are called sparse or complex.
# Behaviour: with scikit-image 0.26.0 it is log2 of the number of pixels for every map in floats: 12.00 bits for noise,
#   for one sharp spot, and for values that differ by a millionth. The map of one bright pixel on 0 has .003 bits, and so
#   has its negative, in which all pixels but one are important. The entropy of the attribution itself is 11.7, 6.0 and
#   12.0 bits, and 0 against 12.0.
# Cause: `shannon_entropy` (skimage/measure/entropy.py) is the entropy of the histogram with one bin for each different
#   value, as its documentation says; floats are different nearly everywhere.
# Why it matters: tables of the complexity of explanations made by this function compare sizes of images and numbers of
#   exact zeros.
# Versions: scikit-image 0.26.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-image==0.26.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from scipy.stats import entropy
from skimage.measure import shannon_entropy

generator = np.random.default_rng(0)
rows, columns = np.indices((64, 64)) - 31.7
one = np.zeros((64, 64))
one[20, 30] = 1
maps = {
    "noise": generator.random((64, 64)),
    "a sharp spot": np.exp(-(rows**2 + 1.1 * columns**2) / 8) + 1e-9 * generator.random((64, 64)),
    "nearly constant": 1 + 1e-6 * generator.random((64, 64)),
    "one pixel": one,
    "all but one pixel": 1 - one,
}
counted = {name: shannon_entropy(values) for name, values in maps.items()}
shared = {name: entropy(values.ravel(), base=2) for name, values in maps.items()}
for name in maps:
    print(f"{name:18} {counted[name]:7.3f} bits; entropy of the attribution {shared[name]:7.3f} bits")
assert all(abs(counted[name] - 12) < 0.01 for name in ("noise", "a sharp spot", "nearly constant"))
assert counted["one pixel"] == counted["all but one pixel"] < 0.01, "the behaviour changed"
assert shared["a sharp spot"] < 7 and shared["all but one pixel"] > 11.9
PYTHON
