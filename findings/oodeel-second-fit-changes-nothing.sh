#!/usr/bin/env bash
# Guess: a second `fit` of a detector of oodeel replaces the first, as in scikit-learn.
# Behaviour: with oodeel 0.4.0 it changes nothing. Mahalanobis, RMDS, DKNN and VIM, fitted to one set of images and then
#   to another, score both as after the first fit, to the last digit. The first set is the strange one by then. A new
#   detector that is fitted to the second set alone tells it with an AUROC of 1.00; the detector with two fits has .005
#   (Mahalanobis) and .000 (DKNN).
# Cause: `_fit_layer` (oodeel/methods/mahalanobis.py, rmds.py, dknn.py, vim.py) appends the statistics of each layer to
#   a list that `fit` does not empty, and `_score_layer` reads them by the number of the layer, from the beginning.
# Why it matters: detectors are fitted for each seed, data set and network of a benchmark. Unless each is built anew,
#   all results after the first are of the first fit; only another number of features would raise an error.
# Versions: oodeel 0.4.0, torch 2.13.0, torchvision 0.28.0, faiss-cpu 1.15.1, numpy 1.26.4, scikit-learn 1.5.2, scipy
#   1.13.1, pandas 2.2.3, datasets 3.6.0, pyarrow 18.1.0. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q oodeel==0.4.0 torch==2.13.0 torchvision==0.28.0 faiss-cpu==1.15.1 numpy==1.26.4 \
    scikit-learn==1.5.2 scipy==1.13.1 pandas==2.2.3 datasets==3.6.0 pyarrow==18.1.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import numpy as np
import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]
from oodeel.methods import DKNN, RMDS, VIM, Mahalanobis
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

draw = torch.Generator().manual_seed(0)
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2)).eval()
shift = 2 * torch.ones(10)
first, second = (torch.randn(1000, 10, generator=draw) + each for each in (-shift, shift))
classes = (torch.arange(1000) % 2).long()


def load(rows):
    """Return a loader of batches of 100."""
    return DataLoader(TensorDataset(rows, classes), batch_size=100)


def fit(detector, *sets):
    """Fit a detector to one set after the other; return its scores of both."""
    for rows in sets:
        detector.fit(network, fit_dataset=load(rows), feature_layers_id=[1])
    return [detector.score(load(rows))[0] for rows in (first, second)]


def auroc(scores):
    """Return how well the scores tell the first set, strange by now, from the second."""
    return roc_auc_score([1] * 1000 + [0] * 1000, np.concatenate(scores))


for kind, settings in ((Mahalanobis, {"eps": 0}), (RMDS, {"eps": 0}), (DKNN, {}), (VIM, {"princ_dims": 4})):
    once, twice, new = (fit(kind(**settings), *sets) for sets in ((first,), (first, second), (second,)))
    print(f"{kind.__name__}: AUROC after two fits {auroc(twice):.3f}, of a new detector {auroc(new):.3f}; scores as "
          f"after the first fit: {np.array_equal(once, twice)}")
    assert auroc(new) > 0.99 and not np.array_equal(once, new)
    assert np.array_equal(once, twice), "the behaviour changed"
    assert kind in (RMDS, VIM) or auroc(twice) < 0.01, "the behaviour changed"
PYTHON
