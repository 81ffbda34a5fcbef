#!/usr/bin/env bash
# Guess: `f_ratio_measure` of ITMO_FS is Fisher's score, variance between classes over variance within, weighted by the
#   images of each class; to add a constant to a column changes nothing.
# Behaviour: with ITMO_FS 0.3.3 the score of a column is anything: 0.30 far from 0, which is right, then 3.05, and -8.11
#   after 0.2 was subtracted. After 1 was subtracted it is -0.19, below that of a column that tells much less.
# Cause: `__calculate_F_ratio` (ITMO_FS/filters/univariate/measures.py) sets the number of images of a class to the sum
#   of the column's values in it rather than to how many there are.
# Why it matters: standardised columns have sums of either sign, so their scores are arbitrary; the ranking of columns
#   depends on whether they were standardised, scaled into 0 to 1 or left as bytes.
# Versions: ITMO_FS 0.3.3, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ITMO_FS==0.3.3 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from ITMO_FS.filters.univariate import f_ratio_measure
from sklearn.feature_selection import f_classif

generator = np.random.default_rng(0)
labels = np.repeat([0, 1], [900, 100])
clear = labels * 2 + generator.normal(size=1000)
faint = labels + generator.normal(size=1000)
right = f_classif(np.stack([clear, faint], axis=1), labels)[0] / 998
scores = {}
for shift in (100, 0, -0.2, -1):
    scores[shift] = f_ratio_measure(np.stack([clear + shift, faint + 100], axis=1), labels)
    print(f"clear column {shift:+}: {scores[shift][0]:.2f}; faint column: {scores[shift][1]:.2f}")
print(f"by definition: {right[0]:.2f} and {right[1]:.2f}")
assert np.allclose(scores[100], right, atol=0.01) and right[0] > 4 * right[1]
assert scores[0][0] > 3 and scores[-0.2][0] < -8, "the behaviour changed"
assert scores[-1][0] < scores[-1][1], "the behaviour changed"
PYTHON
