#!/usr/bin/env bash
# Guess: `spearman_corr` of ITMO_FS is the rank correlation of each column with the class: 0 for noise, and opposite for
#   columns that rise and fall with the class.
# Behaviour: with ITMO_FS 0.3.3 and two equal classes noise has -0.26, a column that rises with the class 0.50, and the
#   same column negated -1.00. If one class has nine images of ten, scores fall to -1.43; and if that is the lower
#   class, rising, falling and noise have -0.46, -0.57 and -0.51.
# Cause: `spearman_corr` (ITMO_FS/filters/univariate/measures.py) looks ranks up in a dictionary from sorted values to
#   places, where each of equal values overwrites the one before: all images of a class have the place of its last. The
#   formula by squared differences of ranks, which holds without ties, does the rest.
# Why it matters: the function is documented for classes, which are nothing but ties. Its zero moves with the sizes of
#   classes, so neither the sign nor a threshold has a meaning, and by size any noise beats a column that rises with the
#   rare class.
# Versions: ITMO_FS 0.3.3, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ITMO_FS==0.3.3 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from ITMO_FS.filters.univariate import spearman_corr
from scipy import stats

generator = np.random.default_rng(0)


def correlate(shares):
    """Return the scores of columns that rise and fall with classes of these sizes, of a weak one and of noise."""
    labels = np.repeat([0, 1], shares)
    noise = generator.normal(size=(3, len(labels)))
    rising, weak = labels + 0.1 * noise[0], -labels + 1.5 * noise[1]
    table = np.stack([rising, -rising, weak, noise[2]], axis=1)
    return spearman_corr(table, labels), [stats.spearmanr(column, labels)[0] for column in table.T]


scores, right = zip(*(correlate(shares) for shares in ((1000, 1000), (200, 1800), (1800, 200))), strict=True)
for shares, made, meant in zip(("equal", "1 : 9", "9 : 1"), scores, right, strict=True):
    print(f"classes {shares}: rises, falls, weakly falls, noise {made.round(2)}, by definition {np.round(meant, 2)}")
assert all(meant[0] > 0.5 > 0.05 > abs(meant[3]) for meant in right)
assert np.allclose(scores[0][:2], [0.5, -1], atol=0.05) and -0.35 < scores[0][3] < -0.15, "the behaviour changed"
assert scores[1][1] < -1.3 and abs(scores[2][3]) > abs(scores[2][0]), "the behaviour changed"
PYTHON
