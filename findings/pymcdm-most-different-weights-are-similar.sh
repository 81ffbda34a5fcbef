#!/usr/bin/env bash
# Guess: pymcdm's similarity of two lists of weights, `wsc(first, second)`, is 1 for equal ones and 0 for the most different
#   ones ("in range [0, 1], where 0 is different weights"), so it is lower than `wsc2`, which has no norm.
# Behaviour: with pymcdm 1.4.0 it is higher. Of two weights of one half and one of 1 and 0, the most different there is, it is
#   .75; with 4 weights .44, with 10 .19. A list of two halves is "similar" by at least .75 to every other list. For weights
#   of a quarter and of .4, .3, .2 and .1 it is .85, where .73 is right.
# Cause: `wsc` (pymcdm/correlations.py) divides the distance by 2 and multiplies it by one minus the smallest weight, where
#   it is to be divided by both, which is the largest distance that there is: all weight on the smallest one. A pair of
#   brackets is missing.
# Why it matters: lists of weights, such as the importance of features or of criteria by two methods, are called alike by
#   this number. Similarities of lists with few entries, and with even weights, are raised most, so lists of different
#   lengths change places.
# Versions: pymcdm 1.4.0, scipy 1.17.1, pandas 3.1.1, matplotlib 3.11.2, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pymcdm==1.4.0 scipy==1.17.1 pandas==3.1.1 matplotlib==3.11.2 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from pymcdm.correlations import wsc, wsc2

generator = np.random.default_rng(0)


def measure_by_hand(first, second):
    """Return one minus the distance as a share of the largest distance of any list of weights from the first one."""
    corners = np.eye(len(first))
    return 1 - np.abs(first - second).sum() / np.abs(first - corners).sum(1).max()


def compare(first, second):
    first, second = np.array(first), np.array(second)
    here, by_hand, plain = wsc(first, second), measure_by_hand(first, second), wsc2(first, second)
    print(f"{first[:4]} and {second[:4]}: wsc {here:.2f}, by hand {by_hand:.2f}, wsc2 {plain:.2f}")
    assert by_hand < plain + 1e-9
    assert here > plain, "the behaviour changed"
    return here, by_hand


for count, expected in ((2, 0.75), (4, 0.4375), (10, 0.19)):
    here, by_hand = compare(np.full(count, 1 / count), np.eye(count)[0])
    assert abs(by_hand) < 1e-9
    assert abs(here - expected) < 1e-9, "the behaviour changed"
here, by_hand = compare([0.25] * 4, [0.4, 0.3, 0.2, 0.1])
assert abs(here - 0.85) < 1e-9, "the behaviour changed"
assert abs(by_hand - 11 / 15) < 1e-9
lowest = min(wsc([0.5, 0.5], weights) for weights in generator.dirichlet(np.ones(2), 2000))
print(f"two halves and 2,000 other lists: at least {lowest:.2f}")
assert lowest >= 0.75, "the behaviour changed"
PYTHON
