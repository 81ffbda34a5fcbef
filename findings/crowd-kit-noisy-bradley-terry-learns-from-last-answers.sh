#!/usr/bin/env bash
# Guess: NoisyBradleyTerry of Crowd-Kit tells careful workers from those who answer by chance or by the side, by their
#   `skills_` and `biases_`, which are fitted by greatest likelihood to all of their answers.
# Behaviour: with crowd-kit 1.4.2 they tell nothing. In ten studies of 8 items, with 150 answers each, two careful workers
#   have mean skills of .72 and .51, one who picks the left one in 95 % .35, and one who answers by chance .51. The same
#   likelihood, maximised with a numerical gradient, has .93, .96, .03 and .07.
# Cause: `_compute_gradient` (crowdkit/aggregation/pairwise/noisy_bt.py) *sets* the derivatives by a worker's bias and skill
#   for each answer, where it should add them up, so a worker's last answer alone stays; and their places are one too low
#   (`labels + worker_idx` for 1 + …), so the first worker's lies on the last item's, and the last worker's is always 0.
# Why it matters: L-BFGS takes it without a word. It is the class for judges of unknown quality, whose answers it should weigh;
#   the last worker's skill is the random start.
# Versions: crowd-kit 1.4.2, pandas 2.3.3, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.3.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q crowd-kit==1.4.2 pandas==2.3.3 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from unittest.mock import patch

import numpy as np
from crowdkit.aggregation import NoisyBradleyTerry
from pandas import DataFrame
from scipy.optimize import approx_fprime
from scipy.special import expit

ITEMS = "abcdefgh"
WORKERS = ["careful one", "careful two", "left", "random"]
strengths = np.linspace(-2, 2, len(ITEMS))


def differentiate(point, *data):
    return approx_fprime(point, NoisyBradleyTerry._compute_log_likelihood, 1e-6, *data)


def answer(generator, worker):
    left, right = generator.choice(len(ITEMS), 2, replace=False)
    chances = {"left": 0.95, "random": 0.5}
    wins = generator.random() < chances.get(worker, expit(strengths[left] - strengths[right]))
    return worker, ITEMS[left], ITEMS[right], ITEMS[left if wins else right]


found, right = [], []
for seed in range(10):
    generator = np.random.default_rng(seed)
    rows = [answer(generator, worker) for worker in WORKERS for _ in range(150)]
    table = DataFrame(rows, columns=["worker", "left", "right", "label"]).sample(frac=1, random_state=seed)
    found.append(NoisyBradleyTerry().fit(table).skills_[WORKERS].to_numpy())
    with patch.object(NoisyBradleyTerry, "_compute_gradient", staticmethod(differentiate)):
        right.append(NoisyBradleyTerry().fit(table).skills_[WORKERS].to_numpy())
found, right = np.array(found), np.array(right)
print("skills of", WORKERS, found.mean(0).round(2), "numerically", right.mean(0).round(2))
assert (right[:, :2].min(1) > right[:, 2:].max(1) + 0.5).all()
assert found[:, 1].mean() < found[:, 3].mean() + 0.1 and np.ptp(found[:, 3]) < 0.02, "the behaviour changed"
# six answers by hand: items 1 to 4, two workers; the places are a constant, items, biases, skills
data = np.array([[1, 2, 1], [2, 3, 3], [3, 4, 3], [1, 4, 4], [4, 2, 2], [1, 3, 1]]), np.array([0, 0, 0, 1, 1, 1]), 4, 2, 0
point = np.random.default_rng(0).normal(size=9)
given, numerical = NoisyBradleyTerry._compute_gradient(point, *data), differentiate(point, *data)
print("gradient:", given.round(3), "numerical:", numerical.round(3))
np.testing.assert_allclose(given[1:4], numerical[1:4], atol=1e-4)
assert given[8] == 0 and (abs(given[4:] - numerical[4:]) > 0.01).all(), "the behaviour changed"
PYTHON
