#!/usr/bin/env bash
# Guess: `FaithfulnessCorrelation.get_faithfulness(…, baseline="mean")` of BEExAI puts the mean of a column in the place of a
#   removed value, and correlates what the prediction loses with the attributions of the removed columns.
# Behaviour: with beexai 0.0.6 a removed value is *multiplied* by its baseline. For a linear model with the exact attributions,
#   weight times distance from the mean, the correlation is -.19 if columns have means of 2 to 6, and by hand 1.00; with
#   medians -.23, with the smallest values -.01 instead of 1.00. The default, 0, is the one baseline that is right.
# Cause: `mask[rows, columns] = baseline_values[rows, columns]`, `x_pert = torch.multiply(x_in, mask)`
#   (beexai/evaluate/metrics/faithfulnesscorr.py): a mask of ones suits 0 alone. The other metrics of the package insert.
# Why it matters: removed values leave the range of the data, so the score is that of the model out there. And
#   `get_all_metrics(baseline="mean")` does not pass it on: this column of its table is always that of 0.
# Versions: beexai 0.0.6, torch 2.13.0, pandas 3.1.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps beexai==0.0.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch
from beexai.evaluate.metrics.faithfulnesscorr import FaithfulnessCorrelation

torch.manual_seed(0)
rows = torch.randn(200, 5) + torch.tensor([2.0, 3, 4, 5, 6])
weights = torch.tensor([0.004, -0.006, 0.002, 0.004, -0.002])


class Model:
    """A linear model of the probability of class 1, which is between 0 and 1 for all values here."""

    def predict_proba(self, values):
        shares = 0.5 + (values - 4) @ weights
        assert ((shares > 0) & (shares < 1)).all()
        return torch.stack([1 - shares, shares], 1)


def correlate_by_hand(attributions, baseline):
    """Return the correlation of losses and attributions when each column is removed alone."""
    losses = [Model().predict_proba(rows)[:, 1]] * 5
    for column in range(5):
        changed = rows.clone()
        changed[:, column] = baseline[column]
        losses[column] = losses[column] - Model().predict_proba(changed)[:, 1]
    return np.corrcoef(torch.stack(losses).flatten(), attributions.T.flatten())[0, 1]


metric = FaithfulnessCorrelation(Model(), "classification")
baselines = {"zero": torch.zeros(5), "mean": rows.mean(0), "median": rows.median(0)[0], "min": rows.min(0)[0]}
found = {}
for name, baseline in baselines.items():
    attributions = weights * (rows - baseline)  # exact: the loss of each column
    found[name] = metric.get_faithfulness(rows, attributions, 1, label=1, n_repeats=500, baseline=name)
    by_hand = correlate_by_hand(attributions, baseline)
    print(f"baseline {name}: {found[name]:.2f}, by hand {by_hand:.2f}")
    assert by_hand > 0.999
assert found["zero"] > 0.999
assert max(found["mean"], found["median"], found["min"]) < 0.5, "the behaviour changed"
PYTHON
