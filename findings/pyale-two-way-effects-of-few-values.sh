#!/usr/bin/env bash
# Guess: the two-way accumulated local effects (ALE) of PyALE are the pure interaction of two features, whatever values
#   these have, and those of (b, a) are those of (a, b), transposed.
# Behaviour: with PyALE 1.2.0 they are where both features have as many different quantiles. If the first has fewer, as
#   a count or a column with many zeros has, main effects stay in. For the model a * b, with five values of a, effects
#   are up to 5.2 from those of (b, a), which reach 9.0. Without an interaction all are 0, so a first test passes.
# Cause: `aleplot_2D_continuous` (PyALE/_src/ALE_2D.py) lays the sizes of the second feature's bins on as many bins as
#   the *first* feature has; bins beyond have no size, the mean over them is missing, and missing becomes 0, so the
#   second feature's main effect is subtracted for its first bins alone.
# Why it matters: the plot shows an interaction where there is a main effect, and which feature is named first decides.
# Versions: PyALE 1.2.0, scikit-learn 1.9.1, statsmodels 0.15.0, scipy 1.17.1, pandas 3.1.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q PyALE==1.2.0 scikit-learn==1.9.1 statsmodels==0.15.0 scipy==1.17.1 pandas==3.1.1 \
    numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import pandas as pd
from PyALE._src.ALE_2D import aleplot_2D_continuous


class Model:
    """Predict a * b, or a sum without an interaction."""

    def __init__(self, interacts):
        self.interacts = interacts

    def predict(self, table):
        return (table.a * table.b if self.interacts else table.a + table.b**2).to_numpy()


generator = np.random.default_rng(0)
normal, other = generator.normal(size=(2, 4000))
few = generator.integers(0, 5, 4000).astype(float)
many_zeros = np.maximum(normal, 0)
for name, first, agrees in (("normal", other, True), ("five values", few, False), ("half zeros", many_zeros, False)):
    table = pd.DataFrame({"a": first, "b": normal if first is not many_zeros else other})
    for interacts in (True, False):
        model = Model(interacts)
        found = aleplot_2D_continuous(table, model, ["a", "b"], grid_size=20)
        swapped = aleplot_2D_continuous(table, model, ["b", "a"], grid_size=20).T
        distance, largest = np.abs(found.to_numpy() - swapped.to_numpy()).max(), np.abs(swapped.to_numpy()).max()
        print(f"a has {name}, {'a * b' if interacts else 'a + b^2'}: (a, b) and (b, a) differ by up to {distance:.2f}")
        if not interacts:
            assert distance < 1e-9 and largest < 1e-9, "without an interaction all effects are 0"
            continue
        # the interaction of a * b, up to the width of the bins in which means are taken
        product = np.outer(swapped.index - table.a.mean(), swapped.columns - table.b.mean())
        print(f"  from (a - mean) * (b - mean): {np.abs(found - product).max(axis=None):.2f}", end="")
        print(f", swapped {np.abs(swapped - product).max(axis=None):.2f}, of {largest:.2f}")
        assert agrees == (distance < 0.01), "the behaviour changed"
        assert np.abs(swapped - product).max(axis=None) < 0.25 * largest, "the behaviour changed"
PYTHON
