#!/usr/bin/env bash
# Guess: the prototypes of ProtoDash in AIX360 are the rows most like the data, with weights that are not negative, as
#   its documentation says; a row that points the other way has weight 0 and gains nothing.
# Behaviour: with aix360 0.3.0 and its default, linear kernel the mirror image of the data's mean is the first
#   prototype, with weight -1 and the largest value of all. It stays in the list when more prototypes are asked for, now
#   with weight 0, and the value of the list falls from .58 to .09. The row next to the mean comes third.
# Cause: the first step (`HeuristicSetSelection`, aix360/algorithms/protodash/PDASH_utils.py) writes `np.max(u / K, 0)`
#   for "at least 0"; the second argument of `np.max` is an axis, so negative weights pass, and their square counts.
#   Later steps solve a quadratic programme with the bound.
# Why it matters: images by features of either sign (centred embeddings) have such rows; the first prototype stands for
#   the data set, and one asked for alone is the least typical image there is.
# Versions: aix360 0.3.0, cvxpy 1.9.3, osqp 1.1.3, xport 3.6.1, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6. No report
#   of it was found; pull request #212 is about the second candidate, which replaces the first whatever its value.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q cvxpy==1.9.3 osqp==1.1.3 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 \
    pandas==3.1.1 click==8.5.1 pyyaml==6.0.3
"$folder/venv/bin/pip" install -q --no-deps aix360==0.3.0 xport==3.6.1  # require old pandas; xport reads one data set
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from aix360.algorithms.protodash import ProtodashExplainer

draw = np.random.default_rng(0)
data = 0.3 * draw.normal(size=(200, 5)) + [1, 0.5, 0, 0, 0]
near, opposite = data.mean(0) * [0.9, 1, 1, 1, 1], -data.mean(0)
candidates = np.vstack([draw.normal(size=(5, 5)), near, opposite, draw.normal(size=(3, 5))])
products = candidates @ data.mean(0)
values = np.maximum(products, 0) ** 2 / np.square(candidates).sum(1) / 2
print("values of single prototypes with weights of at least 0:", values.round(3).tolist())
assert values.argmax() == 5 and values[6] == 0
for optimizer in ("cvxpy", "osqp"):
    for count in (1, 2, 3):
        weights, chosen, reached = ProtodashExplainer().explain(data, candidates, count, optimizer=optimizer)
        print(f"{optimizer}, {count} prototypes: rows {chosen.tolist()}, weights {weights.round(3).tolist()}, "
              f"values {reached.round(3).tolist()}")
        assert chosen[0] == 6 and reached[0] > values.max(), "the behaviour changed"
        assert (abs(weights[0] + 1) < 1e-6) if count == 1 else abs(weights[0]) < 1e-3, "the behaviour changed"
PYTHON
