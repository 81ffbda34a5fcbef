#!/usr/bin/env bash
# Guess: `one_sample_permutation` of nltools leaves missing values out, as its mean does, or gives no p value: a subject
#   without a value changes the test of the other subjects little.
# Behaviour: with nltools 0.5.1 one missing value gives each sample the smallest p value that there is, 1 /
#   (permutations + 1), .0002 by default. Of 100 samples of noise 11 have p of at most .05; with one value of 30 missing
#   all have 1 / 201, at 200 permutations. The mean beside it is right.
# Cause: the mean is `np.nanmean`, and that of a permutation `np.mean` (`_permute_sign`, nltools/stats.py), so all
#   permutations are NaN, none is as large as the mean, and `_calc_pvalue` counts none. `two_sample_permutation` beside
#   it leaves missing values out.
# Why it matters: values are missing in most tables of subjects, so exactly the incomplete regions of a brain come out
#   significant, in either direction and with the smallest of all p values.
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
from nltools.stats import one_sample_permutation, two_sample_permutation

generator = np.random.default_rng(0)
settings = {"n_permute": 200, "n_jobs": 1}
complete, missing, two = [], [], []
for seed in range(100):
    values, others = generator.normal(size=(2, 30))
    complete.append(one_sample_permutation(values, random_state=seed, **settings)["p"])
    values[3] = np.nan
    found = one_sample_permutation(values, random_state=seed, **settings)
    assert found["mean"] == np.nanmean(values)
    missing.append(found["p"])
    two.append(two_sample_permutation(values, others, random_state=seed, **settings)["p"])
for name, found in (("complete", complete), ("one missing", missing), ("two samples, one missing", two)):
    share = np.mean(np.array(found) <= 0.05)
    print(f"{name}: p from {min(found):.4f} to {max(found):.4f}, {share:.0%} at most .05")
assert set(missing) == {1 / 201}, "the behaviour changed"
assert np.mean(np.array(complete) <= 0.05) < 0.15 and max(two) > 0.5
PYTHON
