#!/usr/bin/env bash
# Guess: the contributions of a linear network, weight times pixel, have a Sensitivity-n of 1 for every n: the sum over
#   the n removed pixels is the change of the output.
# Behaviour: with Quantus 0.6.0 they have 1 at the first of 16 steps, .36 on average over all and less than 0 at some.
#   With sums over all removed pixels every step has 1.
# Cause: `evaluate_batch` (quantus/metrics/faithfulness/sensitivity_n.py) passes `x_perturbed` on, so the prediction
#   changes by all pixels removed so far, and appends to `att_sums` the values of the latest step alone.
# Why it matters: no map passes a test that exact contributions fail; the score says how alike the steps of a ranking
#   are, and a table of estimators is ranked by it. Near, on what is correlated with what:
#   https://github.com/understandable-machine-intelligence-lab/Quantus/issues/354.
# Versions: quantus 0.6.0, torch 2.13.0, numpy 2.4.6. The paper: https://arxiv.org/abs/1711.06104.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q quantus==0.6.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import quantus
import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(64, 3, bias=False)).eval()
images = torch.rand(32, 1, 8, 8)
classes = network(images).argmax(1)
exact = (network[1].weight[classes].view(-1, 1, 8, 8) * images).detach().numpy()


def score(maps):
    """Return the correlation at each of 16 steps of 4 pixels; pixels become 0."""
    metric = quantus.SensitivityN(
        features_in_step=4,
        n_max_percentage=1.0,
        perturb_baseline=0.0,
        abs=False,
        normalise=False,
        return_aggregate=False,
        disable_warnings=True,
    )
    call = {"model": network, "x_batch": images.numpy(), "y_batch": classes.numpy(), "a_batch": maps.copy()}
    return np.array(metric(**call, softmax=False, channel_first=True))


def score_by_hand(maps):
    """Return the correlations of the sums over all pixels removed so far with the change of the output."""
    order = np.argsort(-maps.reshape(32, -1), axis=1)
    contributions = np.take_along_axis(exact.reshape(32, -1), order, 1).cumsum(1)[:, 3::4]
    sums = np.take_along_axis(maps.reshape(32, -1), order, 1).cumsum(1)[:, 3::4]
    return np.array([np.corrcoef(one, other)[0, 1] for one, other in zip(sums.T, contributions.T, strict=True)])


found, right = score(exact), score_by_hand(exact)
print(f"exact maps: first step {found[0]:.2f}, lowest {found.min():.2f}, mean {found.mean():.2f}")
print(f"with sums over all removed pixels: lowest {right.min():.2f}")
assert right.min() > 0.9999 and found[0] > 0.9999
assert found.mean() < 0.8 and found.min() < 0.5, "the behaviour changed"
PYTHON
