#!/usr/bin/env bash
# Guess: `BradleyTerry(n_iter=10_000)` of Crowd-Kit goes on until scores change by less than `tol`, so they are those of
#   greatest likelihood, and an item that mostly met strong ones is not punished for it.
# Behaviour: with crowd-kit 1.4.2 it always stops after the second iteration: scores of n_iter = 2 and 10,000 are equal to
#   the last bit. Four strong items A to D and four weak ones a to d, compared mostly within their four, are ranked as
#   A a B b C D c d; by greatest likelihood it is A B C D a b c d, and the best has 53 times the score of the worst
#   instead of 5 times. More comparisons mend nothing.
# Cause: `p_old = p_new` (crowdkit/aggregation/pairwise/bradley_terry.py) is no copy, and `p_new[:] = w` overwrites both,
#   so the change is exactly 0 from then on. Only for `tol=0` it goes on ("0 < 0"), and scores are right.
# Why it matters: two steps from equal scores are nearly shares of wins, and the model is taken because these mislead where
#   not all pairs are compared equally often. Where they are, the order is right, so nothing looks wrong.
# Versions: crowd-kit 1.4.2, choix 0.4.1, pandas 2.3.3, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.3.5. A difference from
#   Evalica's scores was laid to another measure of change: https://github.com/dustalov/evalica/issues/7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q crowd-kit==1.4.2 choix==0.4.1 pandas==2.3.3 scikit-learn==1.9.1 scipy==1.17.1 \
    numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import choix
import numpy as np
from crowdkit.aggregation import BradleyTerry
from pandas import DataFrame
from scipy.special import expit

NAMES = "ABCDabcd"
strengths = np.array([2.5, 2, 1.5, 1, 0, -0.5, -1, -1.5])
counts = {(one, other): 20 if (one < 4) == (other < 4) else 2 for one in range(8) for other in range(one + 1, 8)}


def list_order(scores):
    return "".join(NAMES[item] for item in np.argsort(-scores))


for times in (10, 100):
    generator = np.random.default_rng(0)
    games = [pair for pair, count in counts.items() for _ in range(times * count)]
    wins = generator.random(len(games)) < [expit(strengths[one] - strengths[other]) for one, other in games]
    pairs = [game if win else game[::-1] for game, win in zip(games, wins, strict=True)]
    rows = [("judge", NAMES[winner], NAMES[loser], NAMES[winner]) for winner, loser in pairs]
    table = DataFrame(rows, columns=["worker", "left", "right", "label"])
    all_settings = ({"n_iter": 2}, {"n_iter": 10**4}, {"n_iter": 10**4, "tol": 0})
    two, many, exact = (BradleyTerry(**settings).fit_predict(table)[list(NAMES)].to_numpy() for settings in all_settings)
    likeliest = np.exp(choix.opt_pairwise(8, pairs))
    for name, scores in {"Crowd-Kit": many, "tol=0": exact, "greatest likelihood": likeliest}.items():
        print(f"{len(pairs)} comparisons, {name}: {list_order(scores)}, best to worst {scores[0] / scores[-1]:.0f}")
    np.testing.assert_allclose(exact, likeliest / likeliest.sum(), rtol=0.01)
    assert list_order(exact) == list_order(likeliest) == NAMES
    assert np.array_equal(two, many) and list_order(many) != NAMES, "the behaviour changed"
    assert many[0] / many[-1] < 10 < 40 < exact[0] / exact[-1], "the behaviour changed"
PYTHON
