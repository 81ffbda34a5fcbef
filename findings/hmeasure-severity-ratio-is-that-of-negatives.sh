#!/usr/bin/env bash
# Guess: `h_score(severity_ratio=10)` of hmeasure takes a missed positive as ten times as costly as a false alarm: the
#   documentation calls the ratio the relative cost of misclassification of the positive class to the other.
# Behaviour: with hmeasure 0.1.6 the false alarm costs ten times as much. A test that finds all positives, with 30 %
#   false alarms, scores .47 at a ratio of 10, less than one without false alarms that misses 30 % (.62). At a ratio of
#   .1 they have .70 and .13. H by integration over costs agrees, if the ratio is that of class 0 to class 1.
# Cause: `_generate_beta_params` (hmeasure/hsource.py) puts the mode of the costs where R's package does, which
#   documents the ratio as how much more severe errors of class 0 are; the Python package says the opposite.
# Why it matters: who screens for a disease or fraud sets a ratio above 1, and is told to take the test that misses.
# Versions: hmeasure 0.1.6, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q hmeasure==0.1.6 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from hmeasure import h_score
from scipy.stats import beta
from sklearn.metrics import roc_curve

labels = np.repeat([0, 1], 500)
scores = {
    "misses nothing": np.r_[np.full(350, 0.2), np.full(150, 0.8), np.full(500, 0.8)],
    "no false alarms": np.r_[np.full(500, 0.2), np.full(150, 0.2), np.full(350, 0.8)],
}


def integrate(values, ratio):
    """Return H, one minus the least expected loss by that of a constant answer, for the ratio of class 0 to class 1."""
    false, true, _ = roc_curve(labels, values, drop_intermediate=False)
    costs = (np.arange(20000) + 0.5) / 20000  # of class 0; those of class 1 are the rest
    weights = beta.pdf(costs, 2, 1 + 1 / ratio)
    losses = np.min(costs[:, None] * false + (1 - costs[:, None]) * (1 - true), axis=1)
    return 1 - (weights * losses).sum() / (weights * np.minimum(costs, 1 - costs)).sum()


found = {}
for name, values in scores.items():
    for ratio in (10, 0.1):
        found[name, ratio] = h_score(labels, values, severity_ratio=ratio)
        by_zero, by_one = integrate(values, ratio), integrate(values, 1 / ratio)
        print(f"{name}, ratio {ratio}: H {found[name, ratio]:.3f}; by hand, with the ratio of class 0 to class 1 "
              f"{by_zero:.3f}, of class 1 to class 0 {by_one:.3f}")
        assert abs(found[name, ratio] - by_zero) < 0.001, "the behaviour changed"
assert found["misses nothing", 10] < 0.5 < found["no false alarms", 10], "the behaviour changed"
assert found["no false alarms", 0.1] < 0.5 < found["misses nothing", 0.1], "the behaviour changed"
PYTHON
