#!/usr/bin/env bash
# Guess: SALib's `morris.analyze(…, scaled=True)` multiplies elementary effects by one factor for each column, the ratio of
#   standard deviations, so a linear model has a `sigma` of 0, which is "an indicator of interactions", and "the ranking
#   between the ordinary elementary effects and the scaled should be the same".
# Behaviour: with SALib 1.6.0 a linear model of five columns, of weights 5, 4.8, 4.6, 4.4 and 0, has sigma of a third
#   of mu* in each of the four. With 10 trajectories the four are in another order in 64 % of 200 designs; without
#   scaling, and scaled by deviations of the whole design, never, and sigma is 0.
# Cause: `_compute_elementary_effects` (SALib/analyze/morris.py) takes the deviations within a trajectory, where a column has
#   two values: one up to its step and the other one after it. A step in the middle has the deviation .50 of its size, the
#   first and the last one .37, so the effect depends on when the column moved, which is drawn by chance.
# Why it matters: Morris' plot of sigma against mu* says which columns are linear, and with scaling none is. Screening drops
#   columns by rank after 10 or 20 trajectories.
# Versions: SALib 1.6.0, scipy 1.17.1, pandas 2.3.3, matplotlib 3.11.2, numpy 2.3.5. Deviations for each trajectory are on
#   purpose, after another paper (https://github.com/SALib/SALib/pull/580); the documentation does not name them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q SALib==1.6.0 scipy==1.17.1 pandas==2.3.3 matplotlib==3.11.2 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from SALib.analyze import morris as analyse
from SALib.sample import morris as sample

WEIGHTS, DESIGNS = np.array([5, 4.8, 4.6, 4.4, 0]), 200
problem = {"num_vars": 5, "names": list("abcde"), "bounds": [[0, 1]] * 5}


def score(trajectories, seed, scaled):
    """Return mu* and sigma of the linear model."""
    design = sample.sample(problem, trajectories, seed=seed)
    result = analyse.analyze(problem, design, design @ WEIGHTS, scaled=scaled, num_resamples=2, seed=0)
    return np.array(result["mu_star"]), np.array(result["sigma"]), design


changed = {False: 0, True: 0}
for scaled in changed:
    for seed in range(DESIGNS):
        order = np.argsort(-score(10, seed, scaled)[0])[:4]
        changed[scaled] += order.tolist() != [0, 1, 2, 3]
plain, plain_sigma, design = score(500, 0, False)
scaled, scaled_sigma, _ = score(500, 0, True)
by_hand = WEIGHTS * design.std(0) / (design @ WEIGHTS).std()  # of the whole design; sigma is 0 in a linear model
print("plain:", plain.round(3), plain_sigma.round(3))
print("scaled:", scaled.round(3), scaled_sigma.round(3), "share", (scaled_sigma[:4] / scaled[:4]).round(2))
print("by hand:", by_hand.round(3), f"; another order in {changed[True] / 2:.0f} % of designs, plain {changed[False] / 2:.0f} %")
assert np.allclose(plain, WEIGHTS) and np.allclose(plain_sigma, 0) and changed[False] == 0
assert (scaled_sigma[:4] > 0.2 * scaled[:4]).all() and changed[True] > 0.3 * DESIGNS, "the behaviour changed"
PYTHON
