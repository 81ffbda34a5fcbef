#!/usr/bin/env bash
# Guess: `proportion_difference` of mlxtend tests a difference in either direction, so its p value is the same for two
#   classifiers in either order, and small if they clearly differ.
# Behaviour: with mlxtend 0.25.0 it is .0099 for accuracies of 80 and 84 % of 1,000 images, .9901 for 84 and 80 %, and .5
#   for equal ones. Two-sided they are .02, .02 and 1, as in statsmodels.
# Cause: `norm.cdf(z)` (mlxtend/evaluate/proportion_difference.py) is the lower tail; the docstring says "the p-value".
# Why it matters: whoever writes the new method first finds that no improvement is significant, and whoever writes it
#   last tests at twice the level.
# Versions: mlxtend 0.25.0, statsmodels 0.15.0, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mlxtend==0.25.0 statsmodels==0.15.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from math import isclose

from mlxtend.evaluate import proportion_difference
from statsmodels.stats.proportion import test_proportions_2indep

for first, second, expected in ((0.80, 0.84, 0.0099), (0.84, 0.80, 0.9901), (0.82, 0.82, 0.5)):
    _, found = proportion_difference(first, second, 1000)
    counts = 1000 * first, 1000, 1000 * second, 1000
    right = test_proportions_2indep(*counts, method="wald").pvalue
    print(f"{first} and {second}: mlxtend p = {found:.4f}, two-sided {right:.4f}")
    assert isclose(found, expected, abs_tol=2e-4), "the behaviour changed"
    assert isclose(right, 2 * min(found, 1 - found), rel_tol=0.01), "the other library changed"
PYTHON
