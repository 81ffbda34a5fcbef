#!/usr/bin/env bash
# Guess: with a fixed `random_state` and a budget of all coalitions shapiq's Shapley values are exact for the sample of
#   background rows that was drawn, so a column that the model does not use has the value 0.
# Behaviour: with shapiq 1.4.1 and its default, 100 of 2,000 background rows, four unused columns have one common value:
#   -.021, -.096 or .008 by the seed, where the used ones have -.34 to -.85. Used columns are shifted by the same amount.
#   With all rows (`sample_size=2000`) it is 0. ExactComputer and KernelSHAP agree, and the sum is right.
# Cause: `MarginalImputer.value_function` (shapiq/imputer/marginal_imputer.py) takes the mean over the sample for each
#   coalition but the empty one, whose value is replaced by the mean over all rows; the difference of both means is
#   shared out among all columns.
# Why it matters: a random control column, or one that a sanity check adds, gets a value that no larger budget lowers and
#   that has a sign; all of them have it alike, so it looks systematic.
# Versions: shapiq 1.4.1, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q shapiq==1.4.1 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from shapiq import MarginalImputer, TabularExplainer
from shapiq.game_theory.exact import ExactComputer

rows = np.random.default_rng(0).lognormal(size=(2000, 6))


def predict(table):
    """Sum two of the six columns."""
    return table[:, 0] + table[:, 1]


def list_values(found):
    return np.array([found[(column,)] for column in range(6)])


truth = np.r_[rows[0, :2] - rows[:, :2].mean(0), np.zeros(4)]
for seed in range(3):
    settings = {"model": predict, "data": rows, "random_state": seed}
    explainer = TabularExplainer(index="SV", max_order=1, **settings)
    values = list_values(explainer.explain(rows[0], budget=64))
    game = MarginalImputer(x=rows[0], **settings)
    exact = list_values(ExactComputer(n_players=6, game=game)("SV", 1))
    sample = game._sample_replacement_data(100)
    shift = (predict(rows).mean() - predict(sample).mean()) / 6
    print(f"seed {seed}: {values.round(3).tolist()}, sum {values.sum():.3f} of {truth.sum():.3f}; a sixth: {-shift:.3f}")
    np.testing.assert_allclose(values, exact, atol=1e-6, err_msg="the estimators differ")
    np.testing.assert_allclose(values.sum(), truth.sum(), atol=1e-6, err_msg="the sum changed")
    assert np.ptp(values[2:]) < 1e-6 and abs(values[2]) > 0.005, "the behaviour changed"
    whole = list_values(TabularExplainer(index="SV", max_order=1, sample_size=2000, **settings).explain(rows[0], budget=64))
    np.testing.assert_allclose(whole, truth, atol=1e-6, err_msg="all rows: the behaviour changed")
PYTHON
