#!/usr/bin/env bash
# Guess: `feature_importances_` of a `LinearTreeRegressor` of linear-tree, documented as the normalized total reduction
#   of the criterion, weigh each split by the rows that it reduces it for, as scikit-learn's trees do.
# Behaviour: with linear-tree 0.3.5 a split of 100 rows counts as one of 4,000. Of five splits one divides all rows and
#   takes the mean squared error from 1.54 to .22; two divide 104 and 92 rows, in which the error falls by 1.0 and 1.2,
#   .05 over all rows. The column of these two leads with .58, that of the first has .34. Shares of the reduction over
#   all rows are .04 and .87, of permutation importances .04 and .82.
# Cause: `_grow` (lineartree/_classes.py) adds the loss of a node less those of its children, weighted within the node,
#   without the share of all rows that the node holds.
# Why it matters: the deeper a tree, the more its importances are those of rare groups with large errors; a few outliers
#   can decide which column is first.
# Versions: linear-tree 0.3.5, scikit-learn 1.5.2, numpy 1.26.4, scipy 1.13.1. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q linear-tree==0.3.5 scikit-learn==1.5.2 numpy==1.26.4 scipy==1.13.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from lineartree import LinearTreeRegressor
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression

draw = np.random.default_rng(0)
rows = draw.uniform(-1, 1, size=(4000, 4))
rare = rows[:, 2] > 0.9
target = 4 * abs(rows[:, 0]) + 4 * rare * abs(rows[:, 1]) + draw.normal(size=4000) / 10
model = LinearTreeRegressor(LinearRegression(), max_depth=3, min_samples_leaf=20, max_bins=42,
                            min_impurity_decrease=0.03).fit(rows, target)


def find_loss(part):
    """Return the mean squared error of a linear regression of some rows."""
    return np.square(target[part] - LinearRegression().fit(rows[part], target[part]).predict(rows[part])).mean()


totals, local, sizes = np.zeros(4), np.zeros(4), {}
passed = model.decision_path(rows).toarray().astype(bool)
for number, node in model.summary().items():
    if "col" in node:
        part, children = passed[:, number], [passed[:, child] for child in node["children"]]
        fall = find_loss(part) - sum(find_loss(child) * child.sum() for child in children) / part.sum()
        local[node["col"]] += fall
        totals[node["col"]] += fall * part.mean()
        sizes.setdefault(node["col"], []).append(int(part.sum()))
        print(f"split of {part.sum()} rows by column {node['col']}: the error falls by {fall:.2f}, "
              f"{fall * part.mean():.3f} over all rows")
permuted = permutation_importance(model, rows, target, random_state=0).importances_mean
shares = {
    "linear-tree": model.feature_importances_,
    "reduction within nodes": local / local.sum(),
    "over all rows": totals / totals.sum(),
    "permutation": permuted / permuted.sum(),
}
for name, values in shares.items():
    print(f"{name}: {values.round(2).tolist()}")
assert model.score(rows, target) > 0.98 and sizes[0] == [4000] and max(sizes[1]) < 110
assert shares["over all rows"].argmax() == shares["permutation"].argmax() == 0 and shares["over all rows"][1] < 0.05
np.testing.assert_allclose(shares["linear-tree"], shares["reduction within nodes"], atol=0.001)
assert shares["linear-tree"].argmax() == 1 and shares["linear-tree"][1] > 0.55, "the behaviour changed"
PYTHON
