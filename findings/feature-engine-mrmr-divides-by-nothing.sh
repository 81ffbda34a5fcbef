#!/usr/bin/env bash
# Guess: `MRMR(max_features=4)` of feature-engine selects the four informative columns of twenty, or three of them and a
#   column of noise where luck makes one informative; the other sixteen are noise.
# Behaviour: with feature-engine 1.9.4 and its default method MIQ 2.9 of the four are noise, in the mean of 20 data sets:
#   most often only the first is informative. By mutual information with the target alone .25 of four are noise, and by
#   the method FCQ .4.
# Cause: `relevance / redundance` in `_calculate_mrmr` (feature_engine/selection/mrmr.py, line 465). Both are estimates of
#   mutual information that scikit-learn cuts at 0, so a column that has nothing to do with the first one has redundancy
#   0: its score is infinite, or NaN if its relevance is 0 as well, and `argmax` takes the first NaN before all.
# Why it matters: the less a column is related to anything, the earlier it is selected; NumPy's warning about a division
#   is the one sign. Lists of selected features are compared with importances of networks, and begin with noise here.
# Versions: feature-engine 1.9.4, scikit-learn 1.9.1, scipy 1.17.1, statsmodels 0.15.0, pandas 3.1.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q feature-engine==1.9.4 scikit-learn==1.9.1 scipy==1.17.1 statsmodels==0.15.0 \
    pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from feature_engine.selection import MRMR
from pandas import DataFrame, Series
from sklearn.feature_selection import mutual_info_classif

counts = {"MIQ": [], "FCQ": [], "relevance alone": []}
for seed in range(20):
    generator = np.random.default_rng(seed)
    labels = Series(generator.integers(0, 2, 300))
    table = DataFrame(generator.standard_normal((300, 20)), columns=[f"noise {column}" for column in range(20)])
    informative = [f"informative {column}" for column in range(4)]
    table = table.rename(columns=dict(zip(table.columns, informative)))
    table[informative] = table[informative].add(labels, axis=0)
    for method in ("MIQ", "FCQ"):
        dropped = MRMR(method=method, max_features=4, random_state=0).fit(table.copy(), labels).features_to_drop_
        counts[method].append(4 - len(set(informative) - set(dropped)))
    relevance = Series(mutual_info_classif(table, labels, random_state=0), table.columns)
    counts["relevance alone"].append(4 - len(set(informative) & set(relevance.nlargest(4).index)))
for method, noise in counts.items():
    print(f"{method}: of four selected columns {np.mean(noise):.2f} are noise")
assert np.mean(counts.pop("MIQ")) > 2 > 1 > max(map(np.mean, counts.values())), "the behaviour changed"
PYTHON
