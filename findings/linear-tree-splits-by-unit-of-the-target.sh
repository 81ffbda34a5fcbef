#!/usr/bin/env bash
# Guess: a `LinearTreeRegressor` of linear-tree finds the same splits whether a target is in metres or in kilometres, as
#   scikit-learn's trees do: the criterion is the mean squared error, and `min_impurity_decrease` is 0.
# Behaviour: with linear-tree 0.3.5 a target with a deviation of 1 gives a tree of four leaves and an R² of .95 on new
#   rows. Times .003 the R² is .75; times .002 there is one leaf, the R² is .00, and all importances are 0. Nothing is
#   said.
# Cause: `_grow` rounds the loss of the root, and `_parallel_binning_fit` the loss of each candidate split, to five
#   decimals (lineartree/_classes.py). Squared errors below .000005 are 0, and larger ones tie.
# Why it matters: daily returns, concentrations and shares have such deviations. The tree is a plain linear regression
#   then, and a comparison of both finds no gain by splitting.
# Versions: linear-tree 0.3.5, scikit-learn 1.5.2, numpy 1.26.4, scipy 1.13.1. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q linear-tree==0.3.5 scikit-learn==1.5.2 numpy==1.26.4 scipy==1.13.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from lineartree import LinearTreeRegressor
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

draw = np.random.default_rng(0)
rows = draw.normal(size=(4000, 4))
target = np.where(rows[:, 3] > 0, rows[:, 1], -rows[:, 1]) + draw.normal(size=4000) / 5
old, new = slice(2000), slice(2000, None)
scores, plain, leaves = {}, {}, {}
for unit in (1, 0.1, 0.01, 0.003, 0.002, 0.001):
    model = LinearTreeRegressor(LinearRegression(), max_depth=2).fit(rows[old], unit * target[old])
    tree = DecisionTreeRegressor(min_samples_leaf=20, random_state=0).fit(rows[old], unit * target[old])
    scores[unit], plain[unit] = (each.score(rows[new], unit * target[new]) for each in (model, tree))
    leaves[unit] = len(np.unique(model.apply(rows[new])))
    print(f"deviation {(unit * target).std():.4f}: R² {scores[unit]:.3f} with {leaves[unit]} leaves, importances "
          f"{model.feature_importances_.round(2).tolist()}; scikit-learn's tree {plain[unit]:.3f}")
assert scores[1] > 0.94 and scores[0.1] > 0.94 and np.ptp(list(plain.values())) < 0.01
assert scores[0.003] < 0.85 and scores[0.002] < 0.01 and leaves[0.002] == 1, "the behaviour changed"
PYTHON
