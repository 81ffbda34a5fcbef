#!/usr/bin/env bash
# Guess: `error_spread_score` of scoringrules takes the skewness of the ensemble as its documentation defines it,
#   F / ((F - 1)(F - 2)) times the sum of cubed standardised deviations, which `scipy.stats.skew(bias=False)` computes.
# Behaviour: with scoringrules 0.10.0 the factor F is missing, with numba and without: the skewness is F times too small. Of
#   50,000 ensembles of 50 draws from the very distribution of the observations, an exponential one, the mean score is 8.4
#   where the definition gives 5.2; of normal ensembles of equal mean and variance it is 8.4 (8.5), and of mirrored ones,
#   with the opposite skewness, 8.7 (19.9). The definition tells them apart; this score does not.
# Cause: `g /= (M - 1) * (M - 2)` (scoringrules/core/error_spread/_gufunc.py; `_score.py` has the same).
# Why it matters: the score was proposed because it is proper and sees the third moment. Without it, little but
#   mean and spread counts, also where errors are skewed, as are counts and accuracies near 1. Larger ensembles lose more.
# Versions: scoringrules 0.10.0, numba 0.66.0, scipy 1.17.1, numpy 2.4.6. Source of the definition:
#   https://doi.org/10.1002/qj.2375 and https://frazane.github.io/scoringrules/api/error_spread.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scoringrules==0.10.0 numba==0.66.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from scipy.stats import skew
from scoringrules import error_spread_score

generator = np.random.default_rng(0)
observed = generator.exponential(size=50_000)
ensembles = generator.exponential(size=(50_000, 50))
normal = 1 + generator.normal(size=ensembles.shape)  # the same mean and variance


def score_by_definition(observed, ensembles, divisor=1):
    error, variance = ensembles.mean(1) - observed, ensembles.var(1, ddof=1)
    skewness = skew(ensembles, axis=1, bias=False) / divisor
    return (variance - error**2 - error * np.sqrt(variance) * skewness) ** 2


means = {}
for name, members in {"right": ensembles, "normal": normal, "mirrored": 2 - ensembles}.items():
    found = {backend: error_spread_score(observed, members, backend=backend) for backend in ("numpy", "numba")}
    for scores in found.values():
        np.testing.assert_allclose(scores, score_by_definition(observed, members, divisor=50), err_msg="it changed")
    means[name] = found["numpy"].mean(), score_by_definition(observed, members).mean()
    print("ensembles {}: {:.1f}; by the definition {:.1f}".format(name, *means[name]))
right, symmetric, opposite = means.values()
assert right[1] < 0.8 * symmetric[1] and right[1] < 0.4 * opposite[1], "a proper score prefers the right distribution"
assert all(abs(other[0] - right[0]) < 0.1 * right[0] for other in (symmetric, opposite)), "the behaviour changed"
PYTHON
