#!/usr/bin/env bash
# Guess: the p values of `hyppo.ksample.MANOVA` are those of Pillai's trace, as its documentation says and as
#   statsmodels computes: uniform for equal groups, and small as soon as one column of several differs clearly.
# Behaviour: with hyppo 0.5.2 that holds for one column alone. With two columns, 34 % instead of 50 % of equal groups
#   have p < .5, with five columns none. Two groups of 30 whose first of five columns differs by one standard deviation
#   are found in 77 % of cases by statsmodels, and in 0 % here.
# Cause: `_compute_w` and `_compute_b` (hyppo/ksample/manova.py) are to add up outer products of deviations, but
#   multiply vectors of one axis by `@`, which is their inner product; each entry of both matrices becomes the same
#   number.
# Why it matters: tests of "do the two methods' scores differ in any of these metrics", and comparisons of power that
#   take this MANOVA as the classic one, find nothing; `Hotelling` of the same package, equal to it for two groups,
#   does.
# Versions: hyppo 0.5.2, statsmodels 0.15.0, scipy 1.17.1, numpy 2.4.6, pandas 3.1.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q hyppo==0.5.2 statsmodels==0.15.0 scipy==1.17.1 numpy==2.4.6 pandas==3.1.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import pandas as pd
from hyppo.ksample import MANOVA, Hotelling
from scipy import stats
from statsmodels.multivariate.manova import MANOVA as Reference

generator = np.random.default_rng(0)


def compare(first, second):
    """Return the p values of hyppo, of statsmodels and of Pillai's trace by hand."""
    columns = first.shape[1]
    table = pd.DataFrame(np.vstack([first, second]), columns=[f"c{number}" for number in range(columns)])
    table["group"] = np.repeat(["a", "b"], [len(first), len(second)])
    formula = " + ".join(table.columns[:-1]) + " ~ group"
    tests = Reference.from_formula(formula, table).mv_test().results["group"]["stat"]
    mean = table.iloc[:, :-1].to_numpy().mean(axis=0)
    within = sum((group - group.mean(0)).T @ (group - group.mean(0)) for group in (first, second))
    between = sum(len(group) * np.outer(group.mean(0) - mean, group.mean(0) - mean) for group in (first, second))
    trace = np.trace(between @ np.linalg.inv(between + within))
    rest = len(table) - 1 - columns
    by_hand = stats.f.sf(trace / (1 - trace) * rest / columns, columns, rest)
    return float(MANOVA().test(first, second)[1]), float(tests.loc["Pillai's trace", "Pr > F"]), by_hand


def draw(columns, difference, repeats=100):
    """Return the p values of pairs of groups whose first columns differ by `difference`."""
    found = []
    for _ in range(repeats):
        first, second = generator.normal(size=(2, 30, columns))
        second[:, 0] += difference
        found.append(compare(first, second))
    return np.array(found)


for columns, share in ((2, 0.4), (5, 0.05)):
    equal = draw(columns, 0)
    assert np.allclose(equal[:, 1], equal[:, 2])
    below = (equal < 0.5).mean(axis=0)
    print(f"{columns} columns, equal groups: p < .5 in {below[0]:.0%}, statsmodels {below[1]:.0%}")
    assert below[0] < share and 0.35 < below[1] < 0.65, "the behaviour changed"
power = (draw(5, 1) < 0.05).mean(axis=0)
print(f"one of five columns differs: found in {power[0]:.0%}, statsmodels {power[1]:.0%}")
assert power[0] < 0.1 and power[1] > 0.6, "the behaviour changed"
first, second = generator.normal(size=(2, 30, 5))
assert np.isclose(float(Hotelling().test(first, second)[1]), compare(first, second)[1]), "Hotelling is as it should be"
PYTHON
