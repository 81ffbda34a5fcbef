#!/usr/bin/env bash
# Guess: `BorutaShap.fit(…, train_or_test="test")`, the default, trains on 70 % of the rows and computes importance on
#   the other 30 %, as the docstring says ("on out of sample data"); "train" uses all rows for both.
# Behaviour: with BorutaShap 1.0.17 importance is computed on all rows in either case, so 70 % of the "test" rows are
#   those that the forest was trained on. Of a table of 200 rows, SHAP values of 200 rows enter, not of 60. Mean
#   absolute SHAP values are those of all rows to the last digit, and 13 % below to 19 % above those of the rows that
#   were held out.
# Cause: `Check_if_chose_train_or_test_and_train_model` (BorutaShap.py) splits the table, but `explain` passes the whole
#   one to the explainer; `X_boruta_test` is stored and never read.
# Why it matters: the choice between training and test importance is the argument's only purpose, and its result is a
#   forest of fewer rows explained on the rows that it has memorised.
# Versions: BorutaShap 1.0.17, shap 0.44.1, scikit-learn 1.3.2, scipy 1.11.4, pandas 2.1.4, numpy 1.26.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q BorutaShap==1.0.17 shap==0.44.1 scikit-learn==1.3.2 scipy==1.11.4 pandas==2.1.4 \
    numpy==1.26.4
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import pandas as pd
import shap
from BorutaShap import BorutaShap
from sklearn.ensemble import RandomForestClassifier

generator = np.random.default_rng(0)
table = pd.DataFrame(generator.normal(size=(200, 6)), columns=list("abcdef"))
labels = (table["a"] + generator.normal(size=200) > 0).astype(int)
found = {}
for mode in ("test", "train"):
    selector = BorutaShap(RandomForestClassifier(50, random_state=0), importance_measure="shap", classification=True)
    selector.fit(table, labels, n_trials=1, train_or_test=mode, normalize=False, verbose=False)
    explainer = shap.TreeExplainer(selector.model, feature_perturbation="tree_path_dependent", approximate=True)

    def measure(rows):
        """Compute the importance of the columns: absolute SHAP values, summed over classes, their mean over `rows`."""
        return np.abs(np.array(explainer.shap_values(rows))).sum(axis=0).mean(axis=0)[:6]

    everything = measure(selector.X_boruta)
    assert np.array_equal(selector.X_feature_import, everything), "the behaviour changed"
    if mode == "test":
        assert len(selector.X_boruta_test) == 60 and len(selector.X_boruta) == 200
        held_out = measure(selector.X_boruta_test)
        ratios = everything / held_out
        print(f"importance over that of the 60 rows held out: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
        assert np.abs(ratios - 1).max() > 0.1, "the behaviour changed"
PYTHON
