#!/usr/bin/env bash
# Guess: to permute a column that a model does not use changes no prediction, so its permutation importance is exactly 0
#   in each repeat, also with `max_samples`, which only makes the estimate noisier.
# Behaviour: with scikit-learn 1.9.1 and `max_samples=0.05` four unused columns get importances of up to .14 in size,
#   each with a standard deviation of 0.000 over ten repeats, so "importance ± 2 standard deviations" excludes 0.
# Cause: `permutation_importance` (sklearn/inspection/_permutation_importance.py) scores the unpermuted model on all
#   rows, and each column on one subset, the same for all repeats and all columns. The documentation says that samples
#   are drawn in each repeat.
# Why it matters: all columns move by one common amount, which the reported deviations do not contain: a second seed
#   turns "harmful" columns into "important" ones. Rankings stay right.
# Versions: scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression

generator = np.random.default_rng(0)
columns = generator.normal(size=(400, 6))
labels = (columns[:, 0] + columns[:, 1] / 2 + 0.3 * generator.normal(size=400) > 0).astype(int)
model = LogisticRegression().fit(columns[:200], labels[:200])
model.coef_[0, 2:] = 0
largest = {}
for share in (1.0, 0.5, 0.05):
    for seed in range(10):
        settings = {"n_repeats": 10, "max_samples": share, "random_state": seed}
        found = permutation_importance(model, columns[200:], labels[200:], **settings)
        assert not found.importances_std[2:].any() and len(set(found.importances_mean[2:])) == 1
        largest[share] = max(largest.get(share, 0), abs(found.importances_mean[2]))
    print(f"max_samples={share}: an unused column has an importance of up to {largest[share]:.3f} ± 0.000")
assert largest[1.0] == 0 and largest[0.05] > 0.05, "the behaviour changed"
PYTHON
