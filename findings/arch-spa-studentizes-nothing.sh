#!/usr/bin/env bash
# Guess: Hansen's test of superior predictive ability in arch, `SPA(benchmark, models)`, divides each model's mean loss
#   difference by its standard error (`studentize=True`, the default), so a noisy bad model cannot hide a better one.
# Behaviour: with arch 8.0.0 p values with and without are equal, always. One model is better than the benchmark in all of
#   40 studies (by 9 standard errors); with a second one that is 40 times as noisy and no better, SPA finds the first in
#   12 % of the studies, and so does StepM. The maximum of studentized differences, bootstrapped by hand: 100 %.
# Cause: `_simulate_values` and `compute` (arch/bootstrap/multiple_comparison.py) take plain means. The variances, for which
#   `studentize`, `nested` and a long-run estimate are read, only say which models are too bad to be centred.
# Why it matters: studentizing is what Hansen's test has and White's reality check lacks (here both are one class). More
#   models in the table make each of them worse, and the text beside it says "studentization: asymptotic".
# Versions: arch 8.0.0, statsmodels 0.15.0, pandas 2.3.3, scipy 1.17.1, numpy 2.3.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q arch==8.0.0 statsmodels==0.15.0 pandas==2.3.3 scipy==1.17.1 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from arch.bootstrap import SPA, StepM

STUDIES, IMAGES, DRAWS = 40, 500, 500


def test_by_hand(differences, generator):
    """Return the p value of the largest studentized mean difference, by a bootstrap of the images."""
    error = differences.std(0) / np.sqrt(IMAGES)
    drawn = generator.integers(0, IMAGES, (DRAWS, IMAGES))
    largest = [((differences[rows].mean(0) - differences.mean(0)) / error).max() for rows in drawn]
    return np.mean(largest >= (differences.mean(0) / error).max())


found = {"studentized": [], "not studentized": [], "StepM": [], "by hand": [], "better model alone": []}
for seed in range(STUDIES):
    generator = np.random.default_rng(seed)
    benchmark = generator.normal(size=IMAGES)
    better = benchmark - 0.2 + 0.5 * generator.normal(size=IMAGES)
    noise = generator.normal(size=(2, IMAGES))
    models = np.column_stack([better, benchmark + 20 * noise[0], benchmark + 5 + noise[1]])
    settings = {"block_size": 1, "reps": DRAWS, "seed": 0}
    tests = [SPA(benchmark, models, studentize=studentize, **settings) for studentize in (True, False)]
    tests.append(SPA(benchmark, models[:, :1], **settings))
    step = StepM(benchmark, models, **settings)
    for test in (*tests, step):
        test.compute()
    assert tests[0].pvalues.equals(tests[1].pvalues), "the behaviour changed"
    found["StepM"].append(0 in step.superior_models)
    for name, test in zip(("studentized", "not studentized", "better model alone"), tests, strict=True):
        found[name].append(test.pvalues["consistent"] < 0.05)
    found["by hand"].append(test_by_hand(benchmark[:, None] - models, generator) < 0.05)
shares = {name: np.mean(values) for name, values in found.items()}
print(tests[0], {name: f"{100 * share:.0f} %" for name, share in shares.items()})
assert shares["by hand"] == shares["better model alone"] == 1
assert shares["studentized"] == shares["not studentized"] < 0.3 and shares["StepM"] < 0.3, "the behaviour changed"
PYTHON
