#!/usr/bin/env bash
# Guess: `oob_importances` of rfpimp scores each tree on rows that the tree was not trained on; `n_samples=5000` only
#   limits how many of them are used.
# Behaviour: with rfpimp 1.3.7 this holds up to 5,000 rows. With one row more, the rows are those of another draw, of
#   which each tree has seen about 63 %. Of labels drawn at random, four columns of noise have importances of -.01 to
#   .01 with 5,000 rows and of .24 to .28 with 5,001.
# Cause: `permutation_importances_raw` (rfpimp.py) draws `n_samples` rows, in a new order and with repetitions, and
#   `_get_unsampled_indices` draws each tree's rows again from its seed as if the tree was trained on those.
# Why it matters: whoever takes the out-of-bag form wants importances for new rows. These say what the forest has learned
#   by heart, and noise looks important: columns with many values first. `n_samples=-1` is right.
# Versions: rfpimp 1.3.7, scikit-learn 1.7.2, pandas 2.3.3, numpy 2.3.5, matplotlib 3.10.8, setuptools 80.9.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q rfpimp==1.3.7 scikit-learn==1.7.2 pandas==2.3.3 numpy==2.3.5 matplotlib==3.10.8 \
    setuptools==80.9.0
MPLBACKEND=agg "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from pandas import DataFrame, Series
from rfpimp import oob_importances
from sklearn.ensemble import RandomForestClassifier

np.random.seed(0)
for rows, settings, wrong in ((5000, {}, False), (5001, {}, True), (5001, {"n_samples": -1}, False)):
    table = DataFrame(np.random.standard_normal((rows, 4)), columns=list("abcd"))
    labels = Series(np.random.randint(0, 2, rows))
    forest = RandomForestClassifier(100, random_state=0, oob_score=True).fit(table, labels)
    found = oob_importances(forest, table, labels, **settings).Importance
    print(f"{rows} rows {settings}: accuracy out of bag {forest.oob_score_:.2f}, importances {found.round(2).to_dict()}")
    assert forest.oob_score_ < 0.53 and (found.min() > 0.15 if wrong else found.max() < 0.06), "the behaviour changed"
PYTHON
