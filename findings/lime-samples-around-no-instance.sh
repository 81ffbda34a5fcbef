#!/usr/bin/env bash
# Guess: `LimeTabularExplainer(…, sample_around_instance=True)` draws its samples around the explained row, so its weights
#   are more local than the default's, which draws around the mean of the table.
# Behaviour: with lime 0.2.0.1 weights and samples are those of the default, to the last bit, unless
#   `discretize_continuous=False` is given, too. For a network that is a steep wave of one column, a row just left of a
#   peak and one just right of it in the same quarter of the column have equal weights, to .001.
# Cause: `__data_inverse` (lime/lime_tabular.py) reads the parameter in the branch without a discretizer alone;
#   `discretize_continuous=True` is the default and draws quarters of each column by their frequency in the table. The
#   documentation names no such condition.
# Why it matters: studies state the parameter and report "local" weights of a sample of the whole table.
# Versions: lime 0.2.0.1, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q lime==0.2.0.1 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
MPLBACKEND=agg "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from lime.lime_tabular import LimeTabularExplainer

rows = np.random.default_rng(0).standard_normal((500, 4))
seen = []


def predict(table):
    seen.append(table.copy())
    share = 1 / (1 + np.exp(-4 * np.sin(8 * table[:, 0])))  # a wave with six peaks between -2.4 and 2.4
    return np.stack([1 - share, share], 1)


def explain(row, **settings):
    explainer = LimeTabularExplainer(rows, random_state=0, **settings)
    weights = dict(explainer.explain_instance(row, predict, num_samples=3000).local_exp[1])
    return np.array([weights[column] for column in range(4)]), seen[-1]


left, right = np.array([[0.15, 0, 0, 0], [0.25, 0, 0, 0]])  # the peak is at pi / 16 = .196
for binned in (True, False):
    found = {}
    for around in (False, True):
        settings = {"discretize_continuous": binned, "sample_around_instance": around}
        found[around] = explain(left, **settings)
        mean = found[around][1][:, 0].mean()
        print(f"{settings}: first weight {found[around][0][0]:.4f}, samples' mean {mean:.3f}")
    equal = np.array_equal(found[True][0], found[False][0]) and np.array_equal(found[True][1], found[False][1])
    assert equal == binned, "the behaviour changed"
first, second = (explain(row, sample_around_instance=True)[0][0] for row in (left, right))
print(f"weight of a row left of the peak {first:.4f}, right of it {second:.4f}")
assert first > 0.05 and abs(first - second) < 0.003, "the behaviour changed"
PYTHON
