#!/usr/bin/env bash
# Guess: `get_score_importances(score, X, y, columns_to_shuffle=[[0, 1], [2, 3]])` of eli5 gives the permutation importance of
#   two groups of columns: its generator yields "X matrices which have one or more columns shuffled".
# Behaviour: with eli5 0.16.0 every group has importance 0.0 exactly, in every repetition, without a warning; so have groups
#   given as tuples and arrays, and a group of one column. Given as slices, the same groups have 1.8 and 0.15. Shuffled with
#   `iter_shuffled(..., pre_shuffle=True)`, lists work, too.
# Cause: `rng.shuffle(X_res[:, columns])` (eli5/permutation_importance.py) shuffles in place. Number and slice give a view of
#   the matrix, but a list gives a copy, which is thrown away.
# Why it matters: correlated columns, channels and one-hot columns of one feature are permuted together because alone each
#   hides behind the others. Here all such groups look as if the model did not need them.
# Versions: eli5 0.16.0, scikit-learn 1.9.1, numpy 2.4.6, pandas 2.3.3.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q eli5==0.16.0 scikit-learn==1.9.1 numpy==2.4.6 pandas==2.3.3
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from eli5.permutation_importance import get_score_importances, iter_shuffled

WEIGHTS = np.array([3.0, 2.0, 1.0, 0.0])
generator = np.random.default_rng(0)
columns = generator.normal(size=(2000, 4))
target = columns @ WEIGHTS


def score(columns, target):
    """Return the coefficient of determination of the linear model."""
    return 1 - ((columns @ WEIGHTS - target) ** 2).mean() / target.var()


def measure(groups):
    base, decreases = get_score_importances(score, columns, target, columns_to_shuffle=groups, random_state=0)
    assert base == 1
    return np.array(decreases)


right = [2 * (WEIGHTS[group] ** 2).sum() / (WEIGHTS**2).sum() for group in (slice(0, 2), slice(2, 4))]  # in expectation
slices = measure([slice(0, 2), slice(2, 4)])
once = [1 - score(X, target) for X in iter_shuffled(columns, [[0, 1], [2, 3]], pre_shuffle=True, random_state=0)]
for name, found in {"formula": right, "slices": slices.mean(0), "shuffled before": once}.items():
    print(f"{name}: {np.round(found, 2)}")
for groups in ([[0, 1], [2, 3]], [(0, 1), (2, 3)], [np.array([0, 1]), np.array([2, 3])], [[0]]):
    found = measure(groups)
    print(f"{groups}: {found.mean(0)}")
    assert (found == 0).all(), "the behaviour changed"
np.testing.assert_allclose([slices.mean(0), once], [right, right], atol=0.1)
assert measure([0]).mean() > 1
PYTHON
