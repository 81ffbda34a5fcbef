#!/usr/bin/env bash
# Guess: `ConformalPredictiveSystem.evaluate(…, metrics=["CRPS"])` of crepes is the continuous ranked probability score, in
#   units of the target, so with the target in cents instead of euros it is 100 times as large.
# Behaviour: with crepes 0.9.1 that holds without difficulty estimates. With them (`sigmas`, a normalised system), of 100
#   calibration rows, the score is .93 of the right one if deviations are about .01, 3.3 times it if about 30, and 78 times
#   if about 1,000. Values times 100 have a score times 863. At 30 the normalised system is the better one (18.0, plain
#   18.4), and its score is 58.6.
# Cause: `get_crps` (crepes/base.py, `calculate_crps`) multiplies all widths by sigma, also those of the interval that the
#   true value lies in, which it takes from the predictive distribution, where sigma is in already.
# Why it matters: normalised systems are judged by this score against plain ones, whose score is right. A difficulty in
#   units of the target, such as the deviation of a forest's trees, is the usual one. Asked without numbers in
#   https://github.com/henrikbostrom/crepes/issues/40, open.
# Versions: crepes 0.9.1, scipy 1.17.1, pandas 2.3.3, scikit-learn 1.9.1, numpy 2.3.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q crepes==0.9.1 scipy==1.17.1 pandas==2.3.3 scikit-learn==1.9.1 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from crepes import ConformalPredictiveSystem

CALIBRATION, TEST = 100, 500


def score(unit, normalised):
    """Return CRPS by crepes and by hand, for targets whose deviation is about the unit."""
    generator = np.random.default_rng(0)
    sigmas = unit * generator.uniform(0.5, 1.5, CALIBRATION + TEST)
    predicted = unit * generator.normal(size=CALIBRATION + TEST)
    values = predicted + sigmas * generator.normal(size=CALIBRATION + TEST)
    old, new = slice(CALIBRATION), slice(CALIBRATION, None)
    residuals = values[old] - predicted[old]
    system = ConformalPredictiveSystem()
    system.fit(residuals, sigmas=sigmas[old] if normalised else None)
    given = sigmas[new] if normalised else None
    found = system.evaluate(predicted[new], values[new], sigmas=given, metrics=["CRPS"])["CRPS"]
    scaled = np.outer(sigmas[new], residuals / sigmas[old]) if normalised else np.tile(residuals, (TEST, 1))
    points = np.sort(predicted[new, None] + scaled, axis=1)
    np.testing.assert_allclose(points, np.sort(system.predict_cpds(predicted[new], sigmas=given), axis=1))
    # the mean distance to the value minus half the mean distance of two points of the distribution
    weights = 2 * np.arange(1, CALIBRATION + 1) - CALIBRATION - 1
    spread = (points * weights).sum(1) / CALIBRATION**2
    return found, (abs(points - values[new, None]).mean(1) - spread).mean()


ratios = {}
for unit in (0.01, 1, 30, 100, 1000):
    (plain, right_plain), (found, right) = score(unit, False), score(unit, True)
    ratios[unit] = found / right
    print(f"deviations of about {unit}: plain {plain:.4g} (by hand {right_plain:.4g}), normalised {found:.4g} ({right:.4g}), "
          f"{ratios[unit]:.2f} times")
    np.testing.assert_allclose(plain, right_plain)
print(f"in units of a hundredth: {100 * ratios[100] / ratios[1]:.0f} times the score")
assert ratios[0.01] < 0.99 and ratios[30] > 1.2 and ratios[1000] > 5, "the behaviour changed"
PYTHON
