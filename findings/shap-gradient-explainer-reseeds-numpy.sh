#!/usr/bin/env bash
# Guess: `GradientExplainer.shap_values(…, rseed=0)` makes its own noise repeatable and nothing else.
# Behaviour: with shap 0.51.0 it seeds NumPy's global generator and leaves it there. In a loop over images,
#   `np.random.permutation` after each call is the same permutation, so a random ranking is one ranking for all images.
#   Without `rseed` the call moves the caller's generator on to a state that it seeds from a number below a million.
# Cause: `np.random.seed(rseed)` in `_PyTorchGradient.shap_values` (shap/explainers/_gradient.py).
# Why it matters: a random control drawn beside it has no spread over images. roarbench gives back the caller's
#   generators after each call of a function, and draws its own control from a generator of its own.
# Versions: shap 0.51.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q shap==0.51.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import shap
import torch

network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3)).eval()
explainer = shap.GradientExplainer(network, torch.zeros(5, 3, 2, 2))
rankings = []
for number in range(3):
    explainer.shap_values(torch.full((1, 3, 2, 2), float(number)), nsamples=10, rseed=0)
    rankings.append(tuple(np.random.permutation(12)))
print(f"{len(set(rankings))} different random rankings for 3 images")
assert len(set(rankings)) == 1, "the behaviour changed"
PYTHON
