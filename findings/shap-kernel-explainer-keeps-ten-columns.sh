#!/usr/bin/env bash
# Guess: KernelExplainer estimates the Shapley values of all columns, and a linear model's are found exactly: a column's
#   weight times its distance from the background's mean.
# Behaviour: with shap 0.51.0 at most ten columns have a value other than 0, whatever the table's width. Of 30 columns
#   that all count, 20 get exactly 0 and the others take their shares; values are wrong by up to .79 of the largest. The
#   sum is right. With `l1_reg=False` values are exact.
# Cause: the default is `l1_reg="num_features(10)"` since version 0.47 (`KernelExplainer.shap_values`,
#   shap/explainers/_kernel.py), which chooses columns by lasso and solves for these. The parameter's documentation says
#   so, the class's does not.
# Why it matters: columns without a value look unused and are tied, so a ranking of 30 columns ends after ten, and whoever
#   removes columns by rank removes the other 20 in the table's order.
# Versions: shap 0.51.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q shap==0.51.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from shap import KernelExplainer

generator = np.random.default_rng(0)
for columns in (8, 12, 30):
    rows, weights = generator.standard_normal((60, columns)), 1 + generator.random(columns)
    explainer = KernelExplainer(lambda table: table @ weights, rows[:50])
    right = weights * (rows[50:] - rows[:50].mean(0))
    for settings in ({}, {"l1_reg": False}):
        found = explainer.shap_values(rows[50:], silent=True, **settings)
        counted = int((found != 0).sum(1).max())
        error = np.abs(found - right).max() / np.abs(right).max()
        np.testing.assert_allclose(found.sum(1), right.sum(1), atol=1e-9)
        print(f"{columns} columns, {settings or 'default'}: {counted} have a value, error {error:.2g} of the largest")
        assert counted == (columns if settings else min(columns, 10)), "the behaviour changed"
        assert (error > 0.1) == (columns > 10 and not settings), "the behaviour changed"
PYTHON
