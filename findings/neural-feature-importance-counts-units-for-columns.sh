#!/usr/bin/env bash
# Guess: `VarianceImportanceTorch` of neural-feature-importance gives each column of the table its importance, as
#   `VarianceImportanceKeras` does, and as many numbers as the first layer reads columns.
# Behaviour: with neural-feature-importance 0.9.1 it gives each *hidden unit* a number: 16 of them for 6 columns. Where
#   the layer has as many units as columns nothing shows it: the only column that decides the class is named as the
#   most important one in 2 of 20 networks, by the same formula along the other axis in 20.
# Cause: `finalize` (neural_feature_importance/callbacks.py) adds up axis 1 of weights of shape (features, outputs), as
#   Keras has them. `nn.Linear` has (outputs, features), and the class for torch hands them over as they are, while its
#   log line takes the number of features from the right axis. The class for convolutions transposes its kernels.
# Why it matters: the largest score is a unit's number, read as a column's. Both frameworks are compared with one
#   formula, and differ by this.
# Versions: neural-feature-importance 0.9.1, torch 2.13.0, tensorflow-cpu 2.20.0, keras 3.15.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q neural-feature-importance==0.9.1 torch==2.13.0 tensorflow-cpu==2.20.0 \
    keras==3.15.1 numpy==2.4.6
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch
from neural_feature_importance import VarianceImportanceTorch
from torch import nn


def score(units, seed):
    """Return the scores of the library, and those of its formula for each unit and for each column."""
    torch.manual_seed(seed)
    table = torch.randn(400, 6)
    classes = (table[:, 2] > 0).long()
    network = nn.Sequential(nn.Linear(6, units), nn.ReLU(), nn.Linear(units, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    tracker, weights = VarianceImportanceTorch(network), []
    tracker.on_train_begin()
    for _ in range(20):
        for rows in torch.arange(400).split(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(table[rows]), classes[rows]).backward()
            optimizer.step()
        tracker.on_epoch_end()
        weights.append(network[0].weight.detach().numpy().copy())
    tracker.on_train_end()
    terms = np.var(np.float64(weights), axis=0, ddof=1) * np.abs(weights[-1])
    sums = [terms.sum(axis) for axis in (1, 0)]
    return tracker.feature_importances_, *((one - one.min()) / np.ptp(one) for one in sums)


print(f"16 units and 6 columns: {len(score(16, 0)[0])} scores")
assert len(score(16, 0)[0]) == 16, "the behaviour changed"
named = []
for seed in range(20):
    found, of_units, of_columns = score(6, seed)
    assert np.allclose(found, of_units, atol=1e-4), "the behaviour changed"
    named.append((found.argmax() == 2, of_columns.argmax() == 2))
library, right = np.sum(named, axis=0)
print(f"6 units: the column that decides is the most important one of {library} of 20 networks, by hand of {right}")
assert library < 10 and right == 20, "the behaviour changed"
PYTHON
