#!/usr/bin/env bash
# Guess: `feature_importance_permutation(…, feature_groups=[[0, 1], [2, 3]])` of mlxtend permutes the columns of a group
#   and returns the loss of accuracy; afterwards the table is as before.
# Behaviour: with mlxtend 0.25.0 a group of k columns permutes the first k columns of the table. A classifier of columns 2
#   and 3 loses nothing by any group, and one of columns 0 and 1 loses 50 % by the group [2, 3]. Groups of one column in
#   a list, [[0], [1], [2], [3]], all have column 0's importance; as plain numbers they are right. The caller's table
#   stays permuted: later groups, and whatever is computed from it afterwards, see columns 0 and 1 shuffled.
# Cause: `for i in range(columns): rng.shuffle(X[:, i])` counts places within the group, and `X[:, feat] = save_col` puts
#   back the group's columns (mlxtend/evaluate/feature_importance.py).
# Why it matters: groups are dummy columns of a category, channels of a pixel or pixels of a segment. Groups of one size
#   tie, whatever they hold, and a random control group is as important as the best one.
# Versions: mlxtend 0.25.0, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6. Symptom:
#   https://github.com/rasbt/mlxtend/issues/1092.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mlxtend==0.25.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from mlxtend.evaluate import feature_importance_permutation

rows = np.random.default_rng(0).normal(size=(4000, 4))


def measure(used, groups):
    """Return the importance of groups for an exact classifier of two columns, and which columns of the table changed."""
    table = rows.copy()
    classes = (rows[:, used] > 0).sum(1) % 2
    found, _ = feature_importance_permutation(
        table, classes, lambda table: (table[:, used] > 0).sum(1) % 2, "accuracy", feature_groups=groups, seed=0
    )
    return found.round(2).tolist(), np.flatnonzero((table != rows).any(0)).tolist()


last, changed = measure([2, 3], [[0, 1], [2, 3]])
print(f"classifier of columns 2 and 3: groups [0, 1] and [2, 3] have {last}; the table's changed columns: {changed}")
assert last == [0, 0] and changed == [0, 1], "the behaviour changed"
first, _ = measure([0, 1], [[0, 1], [2, 3]])
print(f"classifier of columns 0 and 1: {first}")
assert min(first) > 0.45, "the behaviour changed"
lists, changed = measure([0, 3], [[0], [1], [2], [3]])
numbers, kept = measure([0, 3], [0, 1, 2, 3])
print(f"classifier of columns 0 and 3: groups of one column {lists}, numbers {numbers}")
assert min(lists) > 0.45 and changed == [0], "the behaviour changed"
assert numbers[1:3] == [0, 0] and min(numbers[0], numbers[3]) > 0.45 and not kept, "plain numbers changed"
PYTHON
