#!/usr/bin/env bash
# Guess: `get_quantile_recalibrator` of Uncertainty Toolbox learns from a calibration set how predicted quantiles are to
#   be moved, so afterwards about q of the values lie below the quantile q, and a constant bias of the predictions is
#   gone.
# Behaviour: with uncertainty-toolbox 0.1.1 the bias is doubled. If all values are one standard deviation higher than
#   predicted, 15 % lie below the median; after recalibration on the same values 3 %. If they are lower, 84 % become
#   98 %. Quantiles of a deviation that is too small are mended, as they are symmetric.
# Cause: `get_proportion_lists_vectorized(…, prop_type="quantile")` (uncertainty_toolbox/metrics_calibration.py)
#   compares prediction minus value with the bound of the quantile, where value minus prediction is meant, so it counts
#   the share *above* the quantile 1 - q. `get_proportion_under_quantile` is alike, and says "proportion of data below".
# Why it matters: calibration errors take the mean over all q, which the mirror leaves as it is, so no metric shows it,
#   and neither do symmetric examples. Biased predictions are what quantiles, rather than deviations, are recalibrated
#   for.
# Versions: uncertainty-toolbox 0.1.1, scikit-learn 1.9.1, scipy 1.17.1, matplotlib 3.11.2, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q uncertainty-toolbox==0.1.1 scikit-learn==1.9.1 scipy==1.17.1 matplotlib==3.11.2 \
  numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from uncertainty_toolbox.metrics_calibration import get_quantile, mean_absolute_calibration_error
from uncertainty_toolbox.recalibration import get_quantile_recalibrator

generator = np.random.default_rng(0)
predictions, deviations = generator.normal(size=5000), np.ones(5000)
noise = generator.normal(size=5000)


def find_shares(values, level=0.5):
    """Return the shares of values below the predicted quantile, before and after recalibration on the same values."""
    recalibrate = get_quantile_recalibrator(predictions, deviations, values)
    before = get_quantile(predictions, deviations, level)
    return (values < before).mean(), (values < recalibrate(predictions, deviations, level)).mean()


higher, lower = find_shares(predictions + 1 + noise), find_shares(predictions - 1 + noise)
wider = find_shares(predictions + 2 * noise, level=0.9)
for name, (before, after) in {"values above predictions": higher, "below": lower}.items():
    print(f"{name}: {100 * before:.0f} % below the median, recalibrated {100 * after:.0f} %")
print(f"deviations too small: {100 * wider[0]:.0f} % below the quantile .9, recalibrated {100 * wider[1]:.0f} %")
errors = [
    mean_absolute_calibration_error(predictions, deviations, predictions + shift + noise, prop_type="quantile")
    for shift in (1, -1)
]
assert abs(errors[0] - errors[1]) < 0.02
assert abs(wider[1] - 0.9) < 0.03
assert higher[1] < 0.05 < 0.1 < higher[0] < 0.2 and lower[1] > 0.95 > 0.9 > lower[0] > 0.8, "the behaviour changed"
PYTHON
