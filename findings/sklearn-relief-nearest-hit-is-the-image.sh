#!/usr/bin/env bash
# Guess: the weights of `Relief` in sklearn-relief are differences to the nearest image of another class minus those to
#   the nearest of the same class, so columns of noise have about 0, and a threshold just above 0 drops them.
# Behaviour: with sklearn-relief 1.0.0b2 noise has about 0.10, nearly a third of a column that tells the class; by
#   definition noise has 0.00 and that column 0.26. No weight is ever negative.
# Cause: `Relief._nn` (sklearn_relief.py) keeps the first of the sorted images of the same class, and then takes the
#   second if there are two; there never are. The first is the image itself, at distance 0, so nothing is subtracted.
# Why it matters: what is left is the distance to another class, which is positive for whatever varies. A threshold at
#   or above 0, which is how Relief selects, keeps all noise; and images far from the other class count the most.
# Versions: sklearn-relief 1.0.0b2, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q sklearn-relief==1.0.0b2 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from sklearn_relief import Relief

generator = np.random.default_rng(0)
labels = generator.integers(0, 2, 500)
table = generator.random((500, 6))
table[:, 0] = 0.5 * table[:, 0] + 0.5 * labels


def weigh_by_definition(values):
    """Return Relief's weights over every image once."""
    weights = np.zeros(values.shape[1])
    for image, label in zip(values, labels, strict=True):
        distances = np.abs(values - image).sum(axis=1)
        distances[distances == 0] = np.inf
        hit, miss = (values[np.where(same, distances, np.inf).argmin()] for same in (labels == label, labels != label))
        weights += np.abs(image - miss) - np.abs(image - hit)
    return weights / len(values)


def weigh(values):
    return Relief(n_jobs=1, n_iterations=2000, random_state=0).fit(values, labels).w_


made, meant = weigh(table), weigh_by_definition(table)
print("class, then noise:", made.round(2), "by definition", meant.round(2))
assert meant[0] > 0.2 and np.abs(meant[1:]).max() < 0.03
assert made[0] > 0.3 and made[1:].min() > 0.08, "the behaviour changed"
PYTHON
