#!/usr/bin/env bash
# Guess: `ice` of pycebox has a curve for each row of the data, so `pdp(ice(…))`, the mean of the curves, is the partial
#   dependence, with as much weight on each kind of row as the data has.
# Behaviour: with pycebox 0.0.1 equal rows share one curve, and the mean is over distinct rows. Of 200 rows with three
#   grades and a flag that is set in 11 %, there are six curves; partial dependence at the upper grade is 11.0 where the
#   mean of predictions is 4.0. With a column of real numbers beside them, which makes all rows distinct, it is 4.0.
# Cause: `ice` (pycebox/ice.py) builds its table with `pivot_table`, whose index is the values of all other columns and
#   of the varied one, and which averages what has the same index.
# Why it matters: with whole-numbered or binned columns, partial dependence weighs each combination once, however rare.
#   Rare combinations are where models extrapolate, and their share here grows with the data: the more rows, the more of
#   the frequent ones fall together.
# Versions: pycebox 0.0.1, pandas 3.1.1, matplotlib 3.11.2, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pycebox==0.0.1 pandas==3.1.1 matplotlib==3.11.2 numpy==2.4.6 six==1.17.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import pandas as pd
from pycebox.ice import ice, pdp

generator = np.random.default_rng(0)
rows = 200
table = pd.DataFrame({"grade": generator.integers(0, 3, rows), "flag": generator.random(rows) < 0.1}).astype(float)


def predict(values):
    return values[:, 0] * (1 + 9 * values[:, 1])


def find_dependence(data):
    """Return the number of curves, and at the upper grade pycebox's partial dependence and the mean of predictions."""
    curves = ice(data, "grade", predict)
    return curves.shape[1], pdp(curves).iloc[-1], predict(data.assign(grade=2.0).to_numpy()).mean()


equal, distinct = find_dependence(table), find_dependence(table.assign(noise=generator.normal(size=rows)))
for name, (curves, made, meant) in {"equal rows": equal, "distinct rows": distinct}.items():
    print(f"{name}: {curves} curves, dependence {made:.1f}, mean of predictions {meant:.1f}")
assert distinct[0] == rows and np.isclose(distinct[1], distinct[2])
assert equal[0] == 6 and np.isclose(equal[1], 11) and equal[2] < 5, "the behaviour changed"
PYTHON
