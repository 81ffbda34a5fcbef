#!/usr/bin/env bash
# Guess: `tail=1` of nltools' permutation tests asks for an effect in one direction, so of samples of noise 5 % have p
#   below .05, and an effect in the other direction has a p value near 1.
# Behaviour: with nltools 0.5.1 the direction is that of the data. Of 200 samples of noise 10.5 % are below .05, no p
#   value is above .57, and a clear effect and its negative have the same one, .01. With `tail=2` 5 % are below .05.
# Cause: `_calc_pvalue` (nltools/stats.py) counts permutations above the statistic if it is positive, and below it if it
#   is negative, for all of the package's permutation tests; `regress_permutation` does it with two masks.
# Why it matters: "one-tailed, p < .05" of the package is a two-sided test at .10. Who plans one direction is told that
#   the opposite is significant too.
# Versions: nltools 0.5.1, numpy 1.23.5, scipy 1.10.1, pandas 1.5.3, scikit-learn 1.2.2, nilearn 0.10.4, nibabel 5.2.1,
#   joblib 1.4.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q nltools==0.5.1 numpy==1.23.5 scipy==1.10.1 pandas==1.5.3 scikit-learn==1.2.2 \
  nilearn==0.10.4 nibabel==5.2.1 joblib==1.4.2 matplotlib==3.7.5 seaborn==0.12.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from nltools.stats import one_sample_permutation

generator = np.random.default_rng(0)
samples = generator.normal(size=(200, 20))


def test(values, tail):
    """Return the p value of a test of the mean."""
    return one_sample_permutation(values, n_permute=100, tail=tail, n_jobs=1, random_state=0)["p"]


shares = {}
for tail in (1, 2):
    found = np.array([test(values, tail) for values in samples])
    shares[tail] = np.mean(found < 0.05)
    print(f"tail={tail}: {shares[tail]:.1%} of samples of noise are below .05, the largest p is {found.max():.2f}")
    assert (found.max() < 0.7) == (tail == 1), "the behaviour changed"
clear = generator.normal(size=20) + 1
print(f"tail=1: a clear effect has p = {test(clear, 1):.3f}, its negative {test(-clear, 1):.3f}")
assert test(clear, 1) < 0.02 and test(-clear, 1) < 0.02, "the behaviour changed"
assert shares[1] > 0.075 and shares[2] < 0.075, "the behaviour changed"
PYTHON
