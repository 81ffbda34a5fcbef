#!/usr/bin/env bash
# Guess: `random_state` of sage's four estimators makes their values repeatable, as it does in scikit-learn.
# Behaviour: with sage-importance 0.0.6 it does for PermutationEstimator and KernelEstimator. IteratedEstimator and
#   SignEstimator draw from NumPy's global generator: with `random_state=0` two calls differ by .13 and .03, where the
#   largest importance is .9 and 1.0, and the caller's own random numbers change with every call.
# Cause: `np.random.choice` chooses rows in `IteratedEstimator` (sage/iterated_estimator.py) and columns in
#   `sample_subset_feature` (sage/utils.py), which both estimators call; `self.rng` beside them is seeded.
# Why it matters: a stated seed does not repeat a table of importances. A control drawn in the same program changes, too.
# Versions: sage-importance 0.0.6, pandas 3.1.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q sage-importance==0.0.6 pandas==3.1.1 scipy==1.17.1 numpy==2.4.6
MPLBACKEND=agg "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import sage

weights = np.array([1, 0.5, 0.2, 0, 0])
generator = np.random.default_rng(0)
rows = generator.standard_normal((300, 5))
labels = rows @ weights + generator.standard_normal(300) / 10
for name, settings, repeats in (
    ("PermutationEstimator", {"thresh": 0.05}, True),
    ("KernelEstimator", {"thresh": 0.05}, True),
    ("IteratedEstimator", {"thresh": 0.05}, False),
    ("SignEstimator", {}, False),
):
    imputer = sage.MarginalImputer(lambda table: table @ weights, rows[:64])
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    values = []
    for _ in range(2):
        estimator = getattr(sage, name)(imputer, "mse", random_state=0)
        values.append(estimator(rows, labels, batch_size=64, bar=False, **settings).values)
    moved = not np.array_equal(before, np.random.get_state()[1])
    print(f"{name}: values differ by {np.abs(np.subtract(*values)).max():.2f} of {values[0].max():.2f}")
    assert np.array_equal(*values) == repeats and moved != repeats, "the behaviour changed"
PYTHON
