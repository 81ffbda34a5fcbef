#!/usr/bin/env bash
# Guess: `r2_score` of Overcomplete, which its training of sparse autoencoders logs for each epoch, is 0 for a reconstruction "as
#   good as the mean", as its documentation says: one that gives each image the mean activation explains nothing.
# Behaviour: with overcomplete 0.3.0 that constant has .47, .78 and .96, where the means of the channels spread as much as one
#   channel does over images, twice as much, and five times. scikit-learn has 0 each time. An autoencoder that explains
#   half of what differs between images has .98 in the last case.
# Cause: `x - x.mean()` (overcomplete/metrics.py) subtracts one number for all images and channels, so what one
#   channel is above another counts as variance to be explained, and a bias explains it.
# Why it matters: activations of vision transformers have channels with means far from the others. Dictionaries for concepts
#   are compared by the second digit behind .9 of this number, and most of it can be the bias.
# Versions: overcomplete 0.3.0, torch 2.13.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps overcomplete==0.3.0 # its networks and pictures need more
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import torch
from sklearn.metrics import r2_score

package = types.ModuleType("overcomplete")  # without networks and pictures, which its first file imports
package.__path__ = list(importlib.util.find_spec("overcomplete").submodule_search_locations)
sys.modules["overcomplete"] = package
from overcomplete import metrics

torch.manual_seed(0)
images, means = torch.randn(5000, 512), torch.randn(512)
found = {}
for spread in (0, 1, 2, 5):
    activations = images + spread * means
    constant = activations.mean(0).expand_as(activations)
    half = constant + (1 - 0.5**0.5) * (activations - constant)  # leaves half of the variance
    for name, reconstruction in (("the mean", constant), ("half explained", half)):
        r2 = metrics.r2_score(activations, reconstruction).item()
        true = r2_score(activations, reconstruction, multioutput="variance_weighted")
        found[spread, name] = r2, true
        print(f"means of channels spread {spread} times as much: R2 of {name:14} {r2:.2f}, by scikit-learn {true:.2f}")
assert all(abs(true - (0.5 if name == "half explained" else 0)) < 0.01 for (_, name), (_, true) in found.items())
assert abs(found[0, "the mean"][0]) < 0.01 and found[1, "the mean"][0] > 0.4
assert found[2, "the mean"][0] > 0.75 and found[5, "the mean"][0] > 0.95, "the behaviour changed"
PYTHON
