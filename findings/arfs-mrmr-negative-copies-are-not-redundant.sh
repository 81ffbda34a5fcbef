#!/usr/bin/env bash
# Guess: mRMR of arfs selects a column and then one that is little related to it. A near copy comes late, whether it is
#   a copy or the copy's negative: redundancy is the size of the correlation.
# Behaviour: with arfs 3.0.0 the negative of the first column, with a little noise, is selected second, with a
#   redundancy of 0.001 and a score of 1266; an unrelated column that helps has 1.31. The same copy without the minus
#   comes third.
# Cause: `fit` asks `association_series` for redundancy with `normalize=True` (association.py), which takes the signed
#   rank correlations to 0 for the smallest and 1 for the greatest. `.abs().clip(0.001)` in mrmr.py comes after that.
#   The most negative correlation becomes 0, then 0.001, so a relevant column gets a thousand times its score.
# Why it matters: complements, distances against similarities, darkness against brightness, one-hot columns of two
#   values: negative copies are common in tables. The selection puts them first, and its table of ranks shows them as
#   not redundant.
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
target = pd.Series(2 * first + 1.5 * second + generator.normal(size=1000))


def select_by_hand(table):
    """Return the columns in the order of F statistic over the mean size of the rank correlation with those before."""
    relevance = pd.Series(f_regression(table, target)[0], table.columns)
    redundancy = table.corr("spearman").abs()
    chosen = [relevance.idxmax()]
    while len(chosen) < len(relevance):
        left = [name for name in table if name not in chosen]
        chosen.append((relevance[left] / redundancy.loc[left, chosen].mean(axis=1)).idxmax())
    return chosen


def select(sign):
    table = pd.DataFrame({"first": first, "second": second, "copy": sign * (first + 0.2 * spread), **noise})
    selector = MinRedundancyMaxRelevance(n_features_to_select=3, task="regression", show_progress=False)
    ranks = selector.fit(table, target).ranking_
    correlation = table["first"].corr(table["copy"], method="spearman")
    print(f"correlation of the copy {correlation:.3f}, by hand {select_by_hand(table)[:3]}\n{ranks}")
    assert select_by_hand(table)[:3] == ["first", "second", "copy"]
    return ranks


assert select(1).index.tolist() == ["first", "second", "copy"]
negative = select(-1)
assert negative.index.tolist() == ["first", "copy", "second"], "the behaviour changed"
assert np.isclose(negative.redundancy["copy"], 0.001) and negative.mrmr["copy"] > 500, "the behaviour changed"
PYTHON
