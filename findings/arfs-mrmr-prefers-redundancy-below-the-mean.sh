#!/usr/bin/env bash
# Guess: mRMR of arfs divides relevance by redundancy, so of two columns of about equal relevance the one that is less
#   like those selected comes first.
# Behaviour: with arfs 3.0.0 the more redundant one comes first, as soon as both are below the mean relevance. Beside
#   one strong column, its very noisy copy is selected second, with a score of -3.1. A column on its own that is more
#   relevant and less redundant has -6.7. The F statistics divided by arfs's own redundancies turn the two round.
# Cause: `f_stat_regression_parallel` and `f_stat_classification_parallel` (association.py) subtract the mean of the F
#   statistics and divide by their deviation; mrmr.py divides these by the redundancy. A negative number divided by a
#   greater one comes nearer to 0, so the order turns round for all columns below the mean.
# Why it matters: F statistics are skewed: with one strong column all others are below the mean, and the method is then
#   one of greatest redundancy.
# Versions: arfs 3.0.0, scikit-learn 1.7.2, pandas 2.3.3, numpy 2.4.6, scipy 1.17.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q arfs==3.0.0 scikit-learn==1.7.2 pandas==2.3.3 numpy==2.4.6 scipy==1.17.1 \
  lightgbm==4.7.0 shap==0.51.0 setuptools==80.10.2
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import pandas as pd
from arfs.feature_selection import MinRedundancyMaxRelevance
from sklearn.feature_selection import f_regression

generator = np.random.default_rng(0)
first, second, spread = generator.normal(size=(3, 1000))
noise = {f"noise_{place}": generator.normal(size=1000) for place in range(4)}
target = pd.Series(6 * first + second + generator.normal(size=1000))
table = pd.DataFrame({"first": first, "second": second, "copy": first + 6 * spread, **noise})
selector = MinRedundancyMaxRelevance(n_features_to_select=7, task="regression", show_progress=False)
ranks = selector.fit(table, target).ranking_
statistics = pd.Series(f_regression(table, target)[0], table.columns)
correlations = table.corr("spearman").abs()["first"].drop("first")
redundancies = selector.redundancy["first"].drop("first")
ranks["F"], ranks["correlation"], ranks["redundancy of first"] = statistics, correlations, redundancies
print(ranks.to_string())
by_hand = (statistics / correlations).drop("first").idxmax()
both = (statistics / redundancies)[["second", "copy"]]
print("second by hand:", by_hand, "\nF divided by arfs's redundancy:", both, sep="\n")
assert statistics.idxmax() == "first" and by_hand == both.idxmax() == "second"
assert statistics["second"] > statistics["copy"] and redundancies["second"] < redundancies["copy"]
assert ranks.index[1] == "copy" and ranks.mrmr.iloc[1:].max() < 0, "the behaviour changed"
PYTHON
