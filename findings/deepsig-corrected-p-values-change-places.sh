#!/usr/bin/env bash
# Guess: `bonferroni_correction` of deepsig multiplies each p value by the number of tests, and the result has the order
#   of the input.
# Behaviour: with deepsig 1.2.8 corrected values stand at the places of other comparisons. Of (.03, .5, .001) the result
#   is (.5, .003, .06): the clear third difference is just not significant at 5 %, and the second one, .5, is. Of the 5,040
#   orders of seven p values, 95 % come back in another order; sorted ones come back right. The k-th smallest of n is
#   multiplied by n - k + 1, as in Holm's method, but without the running maximum: (.02, .021) becomes (.04, .021).
# Cause: `corrected_p_values[sorted_indices]` (deepsig/correction.py) sorts a second time, where the inverse of the
#   order is meant ("unsort", says the comment); both are equal only if the order is its own inverse.
# Why it matters: the package is made for tables of networks and seeds; the winner of a table is another row's. Its
#   example has sorted p values.
# Versions: deepsig 1.2.8, numpy 2.4.6, statsmodels 0.15.0. On the missing Bonferroni:
#   https://github.com/Kaleidophon/deep-significance/issues/2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q deepsig==1.2.8 numpy==2.4.6 statsmodels==0.15.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from itertools import permutations

import numpy as np
from deepsig import bonferroni_correction
from statsmodels.stats.multitest import multipletests

for values in ([0.03, 0.5, 0.001], [0.001, 0.03, 0.5], [0.02, 0.021]):
    found, right = bonferroni_correction(values), multipletests(values, method="bonferroni")[1]
    print(f"{values}: deepsig {found.round(3)}, Bonferroni {right.round(3)}")
found = bonferroni_correction([0.03, 0.5, 0.001])
np.testing.assert_allclose(found, [0.5, 0.003, 0.06], err_msg="the behaviour changed")
np.testing.assert_allclose(bonferroni_correction([0.02, 0.021]), [0.04, 0.021], err_msg="the behaviour changed")
values = np.array([0.001, 0.002, 0.004, 0.008, 0.016, 0.03, 0.06])
right = dict(zip(values, bonferroni_correction(values)))
orders = [np.array(order) for order in permutations(values)]
kept = np.mean([np.allclose(bonferroni_correction(order), [right[value] for value in order]) for order in orders])
print(f"of {len(orders)} orders of seven p values, {100 * kept:.1f} % come back in order")
assert kept < 0.05, "the behaviour changed"
PYTHON
