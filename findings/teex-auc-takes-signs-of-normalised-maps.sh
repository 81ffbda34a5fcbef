#!/usr/bin/env bash
# Guess: the AUC of a signed importance vector in teex is that of absolute values, as the documentation of
#   `feature_importance_scores` says of `thresholdType='abs'`, the default; a sign only says for or against the class.
# Behaviour: with teex 1.0.3 the AUC takes values with their signs. A vector whose ten right features have -0.9 and all others
#   at most 0.1 has AUC 0.0, the worst, while precision, recall and F1 of the same call, which use absolute values, are 1.0.
#   With `thresholdType='thres'`, which casts negative values to 0 by the documentation, it is 0.0 instead of 0.23.
# Cause: `_scale_array` (teex/_utils/_arrays.py) reports negative values only if it mapped the vector to [-1, 1], which it
#   does not if values lie there already, as is asked for.
# Why it matters: signed maps normalised to [-1, 1] are the documented input. A method that shows evidence against the class,
#   such as gradients or SHAP values, is scored below one that shows nothing (0.5).
# Versions: teex 1.0.3, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6, sympy 1.14.0, tqdm 4.70.1,
#   opencv-python-headless 5.0.0.93, pillow 12.0.0. Source: https://teex.readthedocs.io, `teex.featureImportance.eval`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps teex==1.0.3
"$folder/venv/bin/pip" install -q scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 sympy==1.14.0 tqdm==4.70.1 \
    opencv-python-headless==5.0.0.93 pillow==12.0.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from sklearn.metrics import roc_auc_score
from teex.featureImportance.eval import feature_importance_scores

METRICS = ["auc", "prec", "rec", "fscore"]
truth = np.arange(100) < 10
importance = np.where(truth, -0.9, np.random.default_rng(0).uniform(-0.1, 0.1, 100))


def score(importance, kind="abs"):
    return feature_importance_scores(truth.astype(float), importance.copy(), metrics=METRICS, thresholdType=kind)


for name, vector in {"signed": importance, "absolute": np.abs(importance)}.items():
    print(name, dict(zip(METRICS, score(vector).tolist(), strict=True)))
clipped = roc_auc_score(truth, importance.clip(min=0))
print(f"negative values cast to 0: {score(importance, 'thres')[0]:.2f}; by scikit-learn {clipped:.2f}")
assert roc_auc_score(truth, np.abs(importance)) == score(np.abs(importance))[0] == 1
assert score(importance).tolist() == [0, 1, 1, 1], "the behaviour changed"
assert score(importance, "thres")[0] == 0 < clipped, "the behaviour changed"
PYTHON
