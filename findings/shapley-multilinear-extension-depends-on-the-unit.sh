#!/usr/bin/env bash
# Guess: `MultilinearExtension` of shapley is Owen's approximation of Shapley values of a weighted voting game: weights
#   and quota times a constant are the same game, as for its other solvers, and have the same values.
# Behaviour: with shapley 1.0.3 they have others. Weights of 1, 2, 3, 4 and a quota of 5 have .06, .14, .27, .53;
#   divided by 10 they have .08, .18, .30, .44, and divided by 100 the largest weight has everything, 1. Owen's formula
#   gives .09, .18, .30, .43 each time. The exact values are .08, .25, .25, .42.
# Cause: `std` in `MultilinearExtension._approximate` (shapley/solvers/multilinear_extension.py) is the sum of the
#   squared weights of the other players, without a root: a variance where the normal distribution takes a deviation.
#   Mean and variance also lack Owen's factors 1/2 and 1/4, a player's chance to be in a coalition.
# Why it matters: the package is made to value the members of ensembles of classifiers; with weights that sum to 1 small
#   members are near right, and with votes or millions in their place the largest member is overrated.
# Versions: shapley 1.0.3, numba 0.68.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
# shapley asks for a NumPy that has no wheel for recent Pythons; its code runs with later ones.
"$folder/venv/bin/pip" install -q setuptools==80.9.0 wheel==0.48.0 pytest-runner==6.0.1
"$folder/venv/bin/pip" install -q numba==0.68.1 scipy==1.17.1 numpy==2.4.6 six==1.17.0
"$folder/venv/bin/pip" install -q --no-deps --no-build-isolation shapley==1.0.3
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from scipy.stats import norm
from shapley import ExactEnumeration, MultilinearExtension

weights, quota = np.array([[1.0, 2.0, 3.0, 4.0]]), 5.0


def solve(solver, unit):
    """Return the values of the game in other units."""
    game = solver()
    game.solve_game(weights / unit, quota / unit)
    return game.get_solution()[0]


def approximate_by_owen():
    """Return normalised probabilities that a player turns a random coalition of the others into a winning one."""
    mean = (weights.sum() - weights) / 2
    deviation = np.sqrt((weights**2).sum() - weights**2) / 2
    values = norm.cdf((quota - mean) / deviation) - norm.cdf((quota - weights - mean) / deviation)
    return (values / values.sum())[0]


found = {unit: solve(MultilinearExtension, unit) for unit in (1, 10, 100)}
for unit, values in found.items():
    print(f"weights divided by {unit}: {values.round(3)}")
print(f"Owen's formula {approximate_by_owen().round(3)}, exact {solve(ExactEnumeration, 1).round(3)}")
assert np.allclose(solve(ExactEnumeration, 1), solve(ExactEnumeration, 2))
np.testing.assert_allclose(found[1], [0.064, 0.144, 0.266, 0.526], atol=1e-3, err_msg="the behaviour changed")
np.testing.assert_allclose(found[10], [0.077, 0.180, 0.301, 0.441], atol=1e-3, err_msg="the behaviour changed")
np.testing.assert_allclose(found[100], [0, 0, 0, 1], atol=1e-3, err_msg="the behaviour changed")
PYTHON
