#!/usr/bin/env bash
# Guess: `ReliefF` of sklearn-relief weights columns by the differences to neighbours in each: positive for columns that
#   tell the class, about 0 for noise, 0 for a constant.
# Behaviour: with sklearn-relief 1.0.0b2 every column has the same weight, the constant one too, and `transform` keeps
#   the last column. `Relief` of the same package tells them apart.
# Cause: the loop over columns in `ReliefF._fit_iteration` (sklearn_relief.py) never uses its column: it adds the
#   difference of whole images, which `_diff` sums over all columns, to each weight.
# Why it matters: the selection has the right size, the weights look plausible one by one, and which columns are kept
#   depends on their order alone. The weights also grow with the number of columns, as they are sums over all.
# Versions: sklearn-relief 1.0.0b2, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q sklearn-relief==1.0.0b2 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from sklearn_relief import Relief, ReliefF

generator = np.random.default_rng(0)
labels = generator.integers(0, 2, 300)
table = np.stack([0.5 * labels + 0.5 * generator.random(300), generator.random(300), np.zeros(300)], axis=1)


def weigh(kind):
    relief = kind(n_jobs=1, n_iterations=300, random_state=0, n_features=1).fit(table, labels)
    return relief.w_, relief.transform(np.arange(3)[None])[0, 0]


for kind in (Relief, ReliefF):
    weights, kept = weigh(kind)
    print(f"{kind.__name__}: class, noise, constant {weights.round(3)}; keeps column {kept}")
assert weigh(Relief)[1] == 0
assert len(set(weights)) == 1 and weights[0] > 0.1 and kept == 2, "the behaviour changed"
PYTHON
