#!/usr/bin/env bash
# Guess: SALib's delta is reduced by its bias (Plischke and others, equation 30): twice the estimate from the data minus the
#   mean of estimates from resampled data, so that a column that the model does not use comes nearer to 0.
# Behaviour: with SALib 1.6.0 it comes out farther from 0 than without any correction. Of 2,000 rows, columns that are used
#   by nothing have .07 on average (`delta_raw` and `delta_balanced`), the plain estimator .05, and equation 30 by hand
#   .03. A used column has .29 by all, so unused ones are a seventh closer to it than they should be.
# Cause: `bias_reduced_delta` (SALib/analyze/delta.py) estimates `d_hat` from resampled rows, too (`Y[ind]`). Its bias is that
#   of the other resamples, so the difference cancels, and what remains is the mean of the resamples: biased twice.
# Why it matters: delta ranks columns of given data without a design, and the one bias it is known for is that of unused
#   columns. The text of the function names the equation.
# Versions: SALib 1.6.0, scipy 1.17.1, pandas 2.3.3, matplotlib 3.11.2, numpy 2.3.5. Resampling came with
#   https://github.com/SALib/SALib/pull/571; https://github.com/SALib/SALib/issues/659 is on other values since then.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q SALib==1.6.0 scipy==1.17.1 pandas==2.3.3 matplotlib==3.11.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - > "$folder/output" 2> "$folder/notices" <<'PYTHON' || (cat "$folder/notices"; exit 1)
import numpy as np
from SALib.analyze import delta
from scipy.stats import gaussian_kde

ROWS, CLASSES, DRAWS, STUDIES = 2000, 12, 40, 5
problem = {"num_vars": 3, "names": ["used", "unused", "unused, too"], "bounds": [[0, 1]] * 3}


def estimate(values, column):
    """Return half the mean distance between the density of all values and those of 12 classes of the column."""
    grid = np.linspace(values.min(), values.max(), 100)
    density = gaussian_kde(values, "silverman")(grid)
    parts = np.array_split(values[np.argsort(column, kind="stable")], CLASSES)
    distances = [np.trapezoid(abs(density - gaussian_kde(part, "silverman")(grid)), grid) for part in parts]
    return sum(len(part) * distance for part, distance in zip(parts, distances, strict=True)) / (2 * len(values))


found = {"delta_raw": [], "delta_balanced": [], "plain": [], "by hand": []}
for seed in range(STUDIES):
    generator = np.random.default_rng(seed)
    table = generator.random((ROWS, 3))
    values = table[:, 0] + 0.3 * generator.normal(size=ROWS)
    result = delta.analyze(problem, table, values, num_resamples=DRAWS, seed=seed + 1, method="delta")
    for name in ("delta_raw", "delta_balanced"):
        found[name].append(result[name])
    plain = np.array([estimate(values, column) for column in table.T])
    drawn = generator.integers(0, ROWS, (DRAWS, ROWS))
    resampled = np.array([[estimate(values[rows], column[rows]) for rows in drawn] for column in table.T])
    found["plain"].append(plain)
    found["by hand"].append(2 * plain - resampled.mean(1))
means = {name: np.mean(rows, 0) for name, rows in found.items()}
print({name: row.round(3).tolist() for name, row in means.items()})
assert max(abs(row[0] - means["by hand"][0]) for row in means.values()) < 0.02
assert (means["by hand"][1:] < means["plain"][1:] - 0.01).all()
assert (means["delta_raw"][1:] > means["plain"][1:] + 0.01).all(), "the behaviour changed"
assert (means["delta_balanced"][1:] > means["plain"][1:] + 0.01).all(), "the behaviour changed"
PYTHON
cat "$folder/output"
