#!/usr/bin/env bash
# Guess: `MLstatkit.Delong_test` of a model with itself, or of two models that rank all cases alike, has z = 0 and p = 1.
# Behaviour: with MLstatkit 0.1.91 z is 0 and p is 0. So it is for a model and the same model through a sigmoid or a
#   calibration, which change no rank. A p value of 0 is the strongest one there is, and stands beside two equal AUCs.
#   With one case ranked otherwise, p is .32 or more, as it should be.
# Cause: where the variance of the difference is 0, the test falls back on a bootstrap (MLstatkit/delong.py), whose p is
#   twice the smaller share of differences `<= 0` and `> 0`. All are 0, so the second share is 0.
# Why it matters: a comparison of many pairs of models, adjusted for multiple testing, puts the pairs that are equal first.
#   Whoever checks a pipeline by comparing a model with its own copy is told that the copy is another model.
# Versions: MLstatkit 0.1.91, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q MLstatkit==0.1.91 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from MLstatkit import Delong_test

generator = np.random.default_rng(0)
truth = generator.integers(0, 2, 200)
scores = 0.5 * truth + generator.normal(0, 0.5, 200)
otherwise = scores.copy()  # the highest score of class 0 becomes the lowest of all
otherwise[np.flatnonzero(truth == 0)[scores[truth == 0].argmax()]] = scores.min() - 1
pairs = {"itself": scores, "its sigmoid": 1 / (1 + np.exp(-scores)), "one case lower": otherwise}
found = {}
for name, other in pairs.items():
    z, p, _, _, auc, auc_of_other, info = Delong_test(truth, scores, other, random_state=0)
    found[name] = z, p
    print(f"{name}: AUC {auc:.4f} and {auc_of_other:.4f}, z = {z:.2f}, p = {p:.2f} ({info['method']})")
assert found["itself"] == found["its sigmoid"] == (0.0, 0.0), "equal models are equal now"
assert found["one case lower"][1] > 0.3
PYTHON
