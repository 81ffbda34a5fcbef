#!/usr/bin/env bash
# Guess: `su_measure` of ITMO_FS is symmetrical uncertainty, twice the mutual information of a column and the class over
#   the sum of their entropies: 0 for columns of noise, at most 1.
# Behaviour: with ITMO_FS 0.3.3 a constant column has 1, the maximum, and is selected first. A column that tells the
#   class in nine cases of ten has .78, a noisy one that is rarely other than 0 has .88, a coin .50.
# Cause: `su_measure` (ITMO_FS/filters/univariate/measures.py) takes the entropy of the column given the class from the
#   sum of both entropies. That leaves the entropy of the class plus the mutual information, where twice the information
#   is meant; divided by the sum, it grows as the entropy of the column shrinks.
# Why it matters: symmetrical uncertainty is what filters rank discrete columns by, and its division is there to be fair
#   to columns of few values. Here it rewards them: pixels of the margin, always 0, beat every informative one.
# Versions: ITMO_FS 0.3.3, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ITMO_FS==0.3.3 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from ITMO_FS.filters.univariate import UnivariateFilter, select_k_best, su_measure
from sklearn.metrics import mutual_info_score

generator = np.random.default_rng(0)
labels = generator.integers(0, 2, 1000)
columns = {
    "right in 90 %": np.where(generator.random(1000) < 0.9, labels, 1 - labels),
    "a coin": generator.integers(0, 2, 1000),
    "noise, 0 in 98 %": (generator.random(1000) < 0.02).astype(int),
    "constant": np.zeros(1000, dtype=int),
}
table = np.stack(list(columns.values()), axis=1)


def find_uncertainty(column):
    entropies = [mutual_info_score(values, values) for values in (column, labels)]
    return 2 * mutual_info_score(column, labels) / sum(entropies)


scores = su_measure(table, labels)
right = np.array([find_uncertainty(column) for column in columns.values()])
for name, score, meant in zip(columns, scores, right, strict=True):
    print(f"{name}: {score:.2f}, by definition {meant:.2f}")
selector = UnivariateFilter(su_measure, select_k_best(2))
selector.fit(table, labels)
selected = sorted(int(feature) for feature in selector.selected_features)
print("two best:", [list(columns)[column] for column in selected])
assert right.argmax() == 0 and right[0] > 0.4 and max(right[1:]) < 0.01
assert selected == [2, 3] and np.isclose(scores[3], 1), "the behaviour changed"
PYTHON
