#!/usr/bin/env bash
# Guess: `importances(…, features=[["left", "right"], …])` of rfpimp permutes the columns of a group by one permutation,
#   as its docstring promises, so a group keeps the relations within it.
# Behaviour: with rfpimp 1.3.7 each column of a group is permuted by a permutation of its own. Here a model reads the
#   difference of two columns that are nearly equal, and a third column of the same effect. Permuted together, the group
#   has an importance of 1.0 like the third column; rfpimp says 98.
# Cause: `importances` (rfpimp.py, line 176) draws a new permutation for each column of a group.
# Why it matters: groups are made of columns that belong together (neighbour pixels, longitude and latitude, one-hot
#   columns), to keep rows possible. Here the model is asked about rows that no data set has, which the group was to
#   avoid; a one-hot group has rows with two categories or none.
# Versions: rfpimp 1.3.7, scikit-learn 1.7.2, pandas 2.3.3, numpy 2.3.5, matplotlib 3.10.8, setuptools 80.9.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q rfpimp==1.3.7 scikit-learn==1.7.2 pandas==2.3.3 numpy==2.3.5 matplotlib==3.10.8 \
    setuptools==80.9.0
MPLBACKEND=agg "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from pandas import DataFrame
from rfpimp import importances
from sklearn.linear_model import LinearRegression

np.random.seed(0)
left, difference, other = np.random.standard_normal((3, 4000))
table = DataFrame({"left": left, "right": left + 0.1 * difference, "other": other})
target = table["other"] + 10 * (table["right"] - table["left"])
model = LinearRegression().fit(table, target)
found = importances(model, table, target, features=[["left", "right"], ["other"]], n_samples=-1).Importance
together = table.copy()
together[["left", "right"]] = table[["left", "right"]].sample(frac=1, random_state=0).to_numpy()
expected = 1 - model.score(together, target)
group, third = found["left\nright"], found["other"]
print(f"importance of the group: {group:.1f}; permuted together {expected:.2f}; of the third column: {third:.2f}")
assert abs(expected - 1) < 0.1 > abs(third - 1) and group > 50, "the behaviour changed"
PYTHON
