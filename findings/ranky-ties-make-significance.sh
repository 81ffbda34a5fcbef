#!/usr/bin/env bash
# Guess: `p_wins(a, b)` of ranky, a two-sided binomial test of whether a wins against b, is true in at most 5 % of
#   studies of equal methods, and images on which both are right or both wrong say nothing about who is better.
# Behaviour: with ranky 1.0.0 each such image makes a win more significant. 2 wins, 1 loss and 10 ties are a significant
#   win, and so are 2 wins, 1 loss and 100 ties. Of 500 pairs of classifiers that are right in 90 % of 200 images, each by
#   its own luck, one of the two significantly wins in 93 %. The sign test, without ties, finds 4 %.
# Cause: the binomial test (ranky/duel.py, line 83) counts ties as trials that a did not win; 2 of 13 is
#   significantly *fewer* than half, the test is two-sided, and the other condition asks only for more wins than losses.
# Why it matters: correct and wrong answers per image are ties for the most part. `p_wins` is the default comparison of
#   `declare_ties` and `critical_difference`, so its diagrams show equal methods as different.
# Versions: ranky 1.0.0, baycomp 1.0.3, scipy 1.17.1, scikit-learn 1.9.1, pandas 3.1.1, numpy 2.4.6, matplotlib 3.11.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ranky==1.0.0 baycomp==1.0.3 scipy==1.17.1 scikit-learn==1.9.1 pandas==3.1.1 \
    numpy==2.4.6 matplotlib==3.11.2
MPLBACKEND=agg "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from ranky import p_wins
from scipy.stats import binomtest

for ties in (0, 10, 100):
    first, second = np.r_[1, 1, 0, np.ones(ties)], np.r_[0, 0, 1, np.ones(ties)]
    found = bool(p_wins(first, second))
    print(f"2 wins, 1 loss, {ties} ties: a significant win: {found}")
    assert found == (ties > 0), "the behaviour changed"
generator = np.random.default_rng(0)
library, right = [], []
for _ in range(500):
    first, second = generator.random((2, 200)) < 0.9
    library.append(p_wins(first, second) or p_wins(second, first))
    wins, losses = int((first & ~second).sum()), int((second & ~first).sum())
    right.append(binomtest(wins, wins + losses).pvalue <= 0.05)
print(f"equal classifiers: one significantly wins in {np.mean(library):.0%}; sign test without ties {np.mean(right):.0%}")
assert np.mean(library) > 0.8 and np.mean(right) < 0.06, "the behaviour changed"
PYTHON
