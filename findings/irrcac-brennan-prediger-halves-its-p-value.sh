#!/usr/bin/env bash
# Guess: `CAC(ratings).bp()` of irrCAC returns the two-sided p value of its coefficient, as its four other coefficients
#   do, and as `bp()` does for the same ratings counted in a table. So p < .05 where the 95 % interval excludes 0.
# Behaviour: with irrCAC 0.4.4 it returns half of it. The same 60 ratings have p = .035 from `irrCAC.raw`, beside an
#   interval of -.02 to .49, and p = .068 from `irrCAC.table`. Two raters who agree by chance have p below .05 in 12 %
#   of studies, two-sided in 6.5 %, and in 5 % of them 0 is in the interval. No p value is above .5.
# Cause: `bp` (irrCAC/raw.py, line 599) lacks the factor 2 that `gwet`, `fleiss`, `krippendorff` and `conger` have, and
#   takes the absolute value all the same, so it is not one-sided either: agreement below chance is significant, too.
# Why it matters: Brennan-Prediger is the coefficient for raters with no preference among the classes, and stands beside
#   the others in one table. It finds agreement twice as often as its level says.
# Versions: irrCAC 0.4.4, scipy 1.12.0, pandas 2.3.3, numpy 1.26.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q irrCAC==0.4.4 scipy==1.12.0 pandas==2.3.3 numpy==1.26.4
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from irrCAC.raw import CAC
from irrCAC.table import CAC as TableCAC
from pandas import DataFrame, crosstab
from scipy.stats import t

generator = np.random.default_rng(0)
ratings = DataFrame({"first": generator.integers(0, 2, 60)})
ratings["second"] = np.where(generator.random(60) < 0.25, ratings["first"], generator.integers(0, 2, 60))
table = crosstab(ratings["first"], ratings["second"])
for name, one in (("ratings", CAC(ratings).bp()["est"]), ("the same in a table", TableCAC(table).bp()["est"])):
    print(name, {key: one[key] for key in ("coefficient_value", "se", "p_value", "confidence_interval")})
counts = {"p below .05, interval includes 0": 0, "two-sided p below .05": 0, "p below .05": 0}
largest = 0
for _ in range(600):
    study = CAC(DataFrame(generator.integers(0, 2, (60, 2)), columns=["first", "second"]))
    found, other = study.bp()["est"], study.fleiss()["est"]
    right, right_of_other = (2 * t.sf(abs(one["z"]), 59) for one in (found, other))
    assert abs(2 * found["p_value"] - right) < 1e-4, "the behaviour changed"
    assert abs(other["p_value"] - right_of_other) < 1e-4
    low, high = found["confidence_interval"]
    largest = max(largest, found["p_value"])
    small = found["p_value"] < 0.05
    for key, true in zip(counts, (small and low < 0 < high, right < 0.05, small), strict=True):
        counts[key] += int(true)
shares = {key: f"{one / 6:.1f} %" for key, one in counts.items()}
print(f"raters by chance: {largest:.2f} is the largest p value; {shares}")
assert largest <= 0.5 and counts["p below .05, interval includes 0"] > 10, "the behaviour changed"
PYTHON
