#!/usr/bin/env bash
# Guess: `bootstrap(x, statistic=np.mean)` of dipy returns the resampled means, their standard error, and a confidence
#   interval: two numbers around the mean ("ci : ndarray (2, 1)"), by default of 95 %.
# Behaviour: with dipy 1.12.1 the interval is one number, n times the statistic. The mean of 100 values around 10 has 1,008,
#   that of 400 values 3,996, and the standard deviation 2 of 400 values has 850. The confidence level changes nothing before
#   the ninth digit. scipy has 9.66 to 10.43. Standard errors are right.
# Cause: `abc` (dipy/stats/resampling.py) calls the statistic with `x / p_0` where each value has the weight `p_0`, which is
#   1 / n, so the values are multiplied by n and not weighted; one end of the interval is computed.
# Why it matters: of the three results this is the one for an error bar. With a mean near 0, as differences of two methods
#   have, the number looks like a bound.
# Versions: dipy 1.12.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q dipy==1.12.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from dipy.stats.resampling import bootstrap
from scipy import stats

generator = np.random.default_rng(0)
for number in (50, 100, 400):
    values = generator.normal(10, 2, number)
    for statistic in (np.mean, np.std):
        known = stats.bootstrap((values,), statistic, rng=np.random.default_rng(0))
        found = []
        for alpha in (0.5, 0.95):
            means, error, interval = bootstrap(values, statistic=statistic, alpha=alpha, rng=np.random.default_rng(0))
            found.append(float(interval))
            assert abs(error / known.standard_error - 1) < 0.1
        low, high = known.confidence_interval
        print(f"{statistic.__name__} of {number} values, {statistic(values):.2f}: dipy {found[1]:.2f} at .95, {found[0]:.2f} "
              f"at .5; scipy {low:.2f} to {high:.2f}")
        assert np.ndim(interval) == 0 and abs(found[0] - found[1]) < 1e-5, "the behaviour changed"
        assert abs(found[1] / number / statistic(values) - 1) < 0.05, "the behaviour changed"
PYTHON
