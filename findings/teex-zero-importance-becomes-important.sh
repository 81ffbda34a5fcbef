#!/usr/bin/env bash
# Guess: teex maps an importance vector with values outside [-1, 1] to this range by its largest absolute value, so a feature
#   of importance 0 keeps 0, and scores do not depend on the unit of the vector.
# Behaviour: with teex 1.0.3 the smallest value becomes -1 and the largest 1, wherever 0 is. Nine right features have 10, the
#   tenth -2, the 90 others exactly 0, which becomes -0.667. Its absolute value is above the threshold of 0.5, so precision is
#   0.10 instead of 1.0 and F1 0.18 instead of 0.95; divided by 10 before, the vector has 1.0 and 0.95. The cosine
#   similarity, which no unit changes, is 0.36 instead of 0.93.
# Cause: `np.interp(x, (np.amin(x), np.amax(x)), (-1, 1))` in `_scale_array` (teex/_utils/_arrays.py).
# Why it matters: attributions sum to a logit, so their range is any and rarely symmetric. One strong negative value then
#   decides which features count as important, and a method that leaves most features at 0 is punished.
# Versions: teex 1.0.3, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6, sympy 1.14.0, tqdm 4.70.1,
#   opencv-python-headless 5.0.0.93, pillow 12.0.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps teex==1.0.3
"$folder/venv/bin/pip" install -q scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 sympy==1.14.0 tqdm==4.70.1 \
    opencv-python-headless==5.0.0.93 pillow==12.0.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from sklearn.metrics import precision_recall_fscore_support
from teex.featureImportance.eval import feature_importance_scores

truth = (np.arange(100) < 10).astype(float)
importance = 10 * truth
importance[0] = -2
cosine = abs(truth @ importance) / np.linalg.norm(truth) / np.linalg.norm(importance)
precision, _, f1, _ = precision_recall_fscore_support(truth, np.abs(importance) / 10 > 0.5, average="binary")
found = {}
for unit in (1, 10):
    found[unit] = feature_importance_scores(truth.copy(), importance / unit, metrics=["prec", "fscore", "cs"])
    print(f"divided by {unit}:", dict(zip(("precision", "F1", "cosine"), found[unit].astype(float).round(3).tolist(), strict=True)))
np.testing.assert_allclose(found[10], [precision, f1, cosine], rtol=1e-6)
assert found[10][0] == 1 and found[1][0] < 0.11 and found[1][1] < 0.2, "the behaviour changed"
assert found[1][2] < 0.4 < 0.9 < found[10][2], "the behaviour changed"
PYTHON
