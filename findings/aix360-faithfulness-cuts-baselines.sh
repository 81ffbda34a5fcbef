#!/usr/bin/env bash
# Guess: `faithfulness_metric` of AIX360 correlates importances with the changes of the prediction when each column gets
#   its default value `base`, such as the mean of the column; whether the row is an array of integers or of floats does
#   not matter, as it does not for scikit-learn or for `monotonicity_metric` beside it.
# Behaviour: with aix360 0.3.0 the defaults are cut to integers if the row has integers. In columns of 0 and 1 (one-hot
#   or binary pixels) the means become 0: columns that are 0 keep their value and "have no effect", the others lose too
#   much. The right importances of a logistic regression get .60 on average over 200 rows, down to 0, where the same
#   rows as floats get .99, which is the correlation by hand.
# Cause: the function (aix360/metrics/local_metrics.py) writes `base` into a copy of the row, and numpy casts to the
#   copy's type. `monotonicity_metric` writes the row into a copy of `base`.
# Why it matters: the metric compares explainers. Those that give columns of value 0 their due look unfaithful; one
#   that ignores them, wins.
# Versions: aix360 0.3.0, scikit-learn 1.9.1, numpy 2.4.6. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q aix360==0.3.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from aix360.metrics import faithfulness_metric, monotonicity_metric
from sklearn.linear_model import LogisticRegression

draw = np.random.default_rng(0)
rates = np.array([0.1, 0.3, 0.5, 0.7, 0.4, 0.6])
rows = (draw.random((2000, 6)) < rates).astype(int)
logits = (rows - rates) @ [2, -1.5, 1, 3, -2, 0.5]
model = LogisticRegression().fit(rows, draw.random(2000) < 1 / (1 + np.exp(-logits)))
base = rows.mean(0)
found = []
for row in rows[:200]:
    number = int(model.predict(row[None])[0])
    importances = (2 * number - 1) * model.coef_[0] * (row - base)
    changed = np.where(np.eye(6, dtype=bool), base, row)  # each column in turn gets its default
    effects = model.predict_proba(row[None])[0, number] - model.predict_proba(changed)[:, number]
    found.append([
        faithfulness_metric(model, row, importances, base),
        faithfulness_metric(model, row.astype(float), importances, base),
        np.corrcoef(importances, effects)[0, 1],
    ])
    monotonic = [monotonicity_metric(model, each, importances, base) for each in (row, row.astype(float))]
    assert monotonic[0] == monotonic[1]
integers, floats, right = np.array(found).T
print(f"rows of integers: mean {integers.mean():.3f}, from {integers.min():.3f}; of floats: mean {floats.mean():.3f}, "
      f"from {floats.min():.3f}; by hand: mean {right.mean():.3f}; "
      f"{np.mean(abs(integers - right) > 0.1):.0%} are off by .1")
assert np.allclose(floats, right) and right.mean() > 0.98
assert 0.5 < integers.mean() < 0.7 and integers.min() < 0.05, "the behaviour changed"
PYTHON
