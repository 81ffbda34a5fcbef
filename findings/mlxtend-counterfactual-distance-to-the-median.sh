#!/usr/bin/env bash
# Guess: `create_counterfactual` of mlxtend measures changes as Wachter et al. do, to whom it refers: each column's
#   change is divided by that column's median absolute deviation in the data set, so a counterfactual changes the column
#   that reaches the other class with the smallest unusual change.
# Behaviour: with mlxtend 0.25.0 it divides by the distance of the explained row from the median. A change is cheap in
#   those columns in which the row is unusual already, and dear in a column in which it is ordinary. Of two columns of
#   equal spread, the second has thrice the weight. The row (-2, -0.1) reaches 90 % by 1.2 in the second column; the
#   function answers 3.6 in the first, 2.8 times the cost in median absolute deviations (5.1, not 1.8).
# Cause: `mad = np.abs(np.median(X_dataset, axis=0) - x_reference)` below "compute median absolute deviation"
#   (mlxtend/evaluate/counterfactual.py) holds no median of deviations.
# Why it matters: the named column and the size of the change are what a counterfactual tells. Both depend on where the
#   row lies, and columns of counterfactuals cannot be compared between rows.
# Versions: mlxtend 0.25.0, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6, pandas 3.1.1. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mlxtend==0.25.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 pandas==3.1.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from mlxtend.evaluate import create_counterfactual
from scipy.optimize import minimize
from scipy.stats import median_abs_deviation
from sklearn.linear_model import LogisticRegression

WEIGHT = 1000
draw = np.random.default_rng(0)
rows = draw.normal(size=(2000, 2))
classes = (rows @ [1, 3] + draw.normal(size=2000) > 0).astype(int)
model = LogisticRegression().fit(rows, classes)
deviations = median_abs_deviation(rows)


def explain(row):
    """Return the counterfactual by Wachter's distance, from the same start and by the same search."""

    def loss(changed):
        missed = model.predict_proba(changed[None])[0, 1] - 0.9
        return WEIGHT * missed**2 + (abs(changed - row) / deviations).sum()

    return minimize(loss, rows[np.random.RandomState(0).randint(2000)], method="Nelder-Mead").x


print(f"coefficients {model.coef_[0].round(2).tolist()}, median absolute deviations {deviations.round(2).tolist()}")
changes = {}
for row in ([-2, -0.1], [-1, -1], [-0.1, -2]):
    row = np.array(row, float)
    found = create_counterfactual(row, 1, model, rows, y_desired_proba=0.9, lammbda=WEIGHT, random_seed=0)
    right = explain(row)
    costs = [(abs(answer - row) / deviations).sum() for answer in (found, right)]
    changes[tuple(row)] = found - row, right - row, costs
    print(f"row {row.tolist()}: changed by {(found - row).round(2).tolist()}, with the deviations of the columns by "
          f"{(right - row).round(2).tolist()}; probabilities "
          f"{model.predict_proba([found, right])[:, 1].round(3).tolist()}, costs {np.round(costs, 2).tolist()}")
found, right, costs = changes[-2, -0.1]
assert abs(right[0]) < 0.01 < 1 < right[1] and abs(costs[1] - right[1] / deviations[1]) < 0.01
assert found[0] > 3 and abs(found[1]) < 0.01 and costs[0] > 2.5 * costs[1], "the behaviour changed"
assert np.allclose(*changes[-0.1, -2][:2], atol=0.02)
PYTHON
