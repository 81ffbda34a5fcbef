#!/usr/bin/env bash
# Guess: `Xi(x, y).pval_asymptotic(ties=True)` of xicor is the test for data with ties, such as class labels; its
#   docstring says that `ties=True` does no harm either way, so true is the careful choice.
# Behaviour: with xicor 1.0.1 the two tests have changed places. Of independent scores and two classes, `ties=True`
#   calls 14 % significant at 0.05; `ties=False`, the default, calls 3 %. With ten classes both call 4 %.
# Cause: `Xi.pval_asymptotic` (xicor/xicor.py) returns the p value with the variance 2/5, which holds without ties
#   alone, if `ties` is true, and otherwise goes on to the variance that is estimated from the ranks. With two equal
#   classes that variance is about 1.
# Why it matters: Chatterjee's xi screens columns for any dependence on a class. The fewer classes, the more ties, and
#   the more columns of noise pass the test that was asked for because of them.
# Versions: xicor 1.0.1, scipy 1.17.1, numpy 2.4.6, pandas 3.1.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q xicor==1.0.1 scipy==1.17.1 numpy==2.4.6 pandas==3.1.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from scipy import stats
from xicor.xicor import Xi

generator = np.random.default_rng(0)
np.random.seed(0)


def count_significant(classes, repeats=400, images=100):
    """Return the shares of independent pairs with p < 0.05, told of ties and not."""
    found = []
    for _ in range(repeats):
        scores, labels = generator.normal(size=images), generator.integers(0, classes, images)
        xi = Xi(scores.tolist(), labels.tolist())
        found.append([xi.pval_asymptotic(ties=ties) < 0.05 for ties in (True, False)])
    return np.mean(found, axis=0)


shares = {classes: count_significant(classes) for classes in (2, 10)}
for classes, (told, untold) in shares.items():
    print(f"{classes} classes, significant {100 * told:.0f} % with ties=True, {100 * untold:.0f} % without")
assert all(0.01 < share < 0.09 for share in (shares[2][1], *shares[10])), "the behaviour changed"
assert shares[2][0] > 0.1, "the behaviour changed"
xi = Xi(generator.normal(size=100).tolist(), np.repeat([0, 1], 50).tolist())
np.random.seed(1)
told = xi.pval_asymptotic(ties=True)
np.random.seed(1)
simple = stats.norm.sf(np.sqrt(100 * 5 / 2) * xi.correlation)
assert np.isclose(told, simple), "the behaviour changed"
PYTHON
