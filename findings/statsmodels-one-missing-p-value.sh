#!/usr/bin/env bash
# Guess: a p value that is missing (NaN) is left out of the adjustment, or makes every verdict missing.
# Behaviour: with statsmodels 0.15.0 neither. `multipletests(…, method="fdr_bh")` returns NaN for every adjusted p value
#   and, beside them, verdicts that count the missing row as a test: .04, significant among three p values, is not
#   significant any more, while .001 and .02 still are.
# Cause: NaN sorts last and counts in the number of tests; the running minimum that makes adjusted values carries it
#   back to all (`fdrcorrection`, statsmodels/stats/multitest.py).
# Why it matters: tables of estimators have rows without a result. Two numbers of one call contradict each other.
# Versions: statsmodels 0.15.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q statsmodels==0.15.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from statsmodels.stats.multitest import multipletests

present = [0.001, 0.02, 0.04]
rejected, adjusted = multipletests(present, method="fdr_bh")[:2]
rejected_beside, adjusted_beside = multipletests([*present, np.nan], method="fdr_bh")[:2]
print(f"three p values: significant {rejected}, adjusted {adjusted}")
print(f"and a missing one: significant {rejected_beside}, adjusted {adjusted_beside}")
assert rejected.all() and np.isnan(adjusted_beside).all(), "the behaviour changed"
assert rejected_beside.tolist() == [True, True, False, False], "the behaviour changed"
PYTHON
