#!/usr/bin/env bash
# Guess: `get_calibration_error_uncertainties(probs, labels, alpha=.1)` returns a 90 % interval,
#   and one of 50 % for alpha = .5 is much narrower.
# Behaviour: with uncertainty-calibration 0.1.4 intervals of alpha = .5, .1 and .01 are about equally wide: all reach from
#   the smallest of 100 resamples to the largest. The 90 % interval is that of alpha = 10, here with 64 % of the width.
# Cause: the function passes its share on to `bootstrap_uncertainty` (calibration/utils.py, line 425), which takes
#   percents, and whose own default for 90 % is 10.
# Why it matters: the default is .1, so every published "90 %" interval is one of 99.9 %, and differences in calibration
#   between two networks count as none. Ends are the extremes of 100 draws, so they change with the seed.
# Versions: uncertainty-calibration 0.1.4, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q uncertainty-calibration==0.1.4 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import calibration
import numpy as np

generator = np.random.default_rng(0)
widths = dict.fromkeys((0.5, 0.1, 0.01, 10), 0.0)
for repeat in range(10):
    probabilities = generator.random(500).round(1)
    labels = (generator.random(500) < probabilities**1.5).astype(int)
    for alpha in widths:
        np.random.seed(repeat)
        low, _, high = calibration.get_calibration_error_uncertainties(probabilities, labels, p=1, alpha=alpha)
        widths[alpha] += float(high - low) / 10
for alpha, width in widths.items():
    print(f"alpha = {alpha}: intervals of width {width:.4f}")
assert widths[0.5] > 0.95 * widths[0.01] and widths[10] < 0.75 * widths[0.1], "the behaviour changed"
PYTHON
