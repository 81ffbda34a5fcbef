#!/usr/bin/env bash
# Guess: `ReliefF` of the package ReliefF weights a column by how far it moves between an image and its nearest
#   neighbours of its own class and of others, so a column that holds the class in real numbers is first.
# Behaviour: with ReliefF 0.1.2 all real columns have one and the same score, to the last digit, and `transform` keeps
#   the last columns of the table, whatever they are. The same table rounded to whole numbers has the right column
#   first.
# Cause: `ReliefF.fit` (ReliefF/ReliefF.py) compares a column's values of an image and its neighbour for equality alone.
#   Real numbers are never equal, so every column has the count of neighbours of other classes minus those of its own;
#   the sort of equal scores, turned round, begins with the last column.
# Why it matters: activations and colours are real numbers. A selection comes out, without a warning, of the size that
#   was asked for, and depends on the order of the columns alone; a classifier behind it works as well as chance
#   permits.
# Versions: ReliefF 0.1.2, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ReliefF==0.1.2 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from ReliefF import ReliefF

generator = np.random.default_rng(0)
labels = generator.integers(0, 2, 500)
table = generator.normal(size=(500, 6))
table[:, 0] += 3 * labels


def select(values):
    """Return the scores, and the columns that are kept."""
    relief = ReliefF(n_neighbors=20, n_features_to_keep=2)
    relief.fit(values, labels)
    kept = relief.transform(np.arange(6)[None])[0]
    return relief.feature_scores, kept.tolist()


scores, kept = select(table)
turned, kept_turned = select(np.ascontiguousarray(table[:, ::-1]))
rounded, kept_rounded = select(table.round())
print("real:", scores, "kept", kept)
print("columns turned round:", turned, "kept", kept_turned)
print("rounded:", rounded, "kept", kept_rounded)
assert kept_rounded[0] == 0 and rounded.argmax() == 0
assert len(set(scores)) == 1 and kept == kept_turned == [5, 4], "the behaviour changed"
PYTHON
