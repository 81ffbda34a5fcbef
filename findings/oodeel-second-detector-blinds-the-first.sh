#!/usr/bin/env bash
# Guess: detectors of oodeel that are fitted to one network are independent: the scores of the first do not change when
#   a second one is fitted.
# Behaviour: with oodeel 0.4.0 and a torch network, the first detector is blind from then on. It scores the features of
#   the last batch that it saw, again and again, whatever it is given: 1,000 images in batches of 100 have 100 different
#   scores, the same for known and for strange images. The AUROC falls from .91 (Energy), .99 (Mahalanobis) and .98
#   (VIM) to .500. No message appears, and the detector that was fitted last works.
# Cause: `_prepare_ood_handles` (oodeel/extractor/torch_feature_extractor.py) removes the hooks of any detector from the
#   network, and `predict_tensor` reads `_features`, which nothing writes to any more.
# Why it matters: a benchmark fits its detectors in one loop and scores them in another. All but the last then guess. A
#   detector whose logits are reported with its scores has stale logits, too.
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
from oodeel.methods import VIM, Energy, Mahalanobis
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

draw = torch.Generator().manual_seed(0)
known = torch.randn(1000, 10, generator=draw)
strange = 3 * torch.randn(1000, 10, generator=draw)
classes = (known[:, 0] > 0).long()
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2)).eval()
with torch.no_grad():
    network[2].weight.copy_(-network[2].weight.abs())  # larger features, smaller logits: Energy has something to find
    network[2].bias.fill_(10)


def load(rows):
    """Return a loader of batches of 100."""
    return DataLoader(TensorDataset(rows, classes), batch_size=100)


def score(detector):
    """Return the AUROC, and the number of different scores of known images."""
    scores = [detector.score(load(rows))[0] for rows in (known, strange)]
    return roc_auc_score([0] * 1000 + [1] * 1000, np.concatenate(scores)), len(np.unique(scores[0]))


for name, detector in {"Energy": Energy(), "Mahalanobis": Mahalanobis(eps=0), "VIM": VIM(princ_dims=4)}.items():
    layers = [] if name == "Energy" else [1]
    detector.fit(network, fit_dataset=load(known), feature_layers_id=layers)
    before = score(detector)
    second = Energy()
    second.fit(network)
    after, last = score(detector), score(second)
    print(f"{name}: AUROC {before[0]:.3f} ({before[1]} scores); after another was fitted {after[0]:.3f} ({after[1]} "
          f"scores); the other {last[0]:.3f}")
    assert before[0] > 0.9 and before[1] > 990 and last[0] > 0.9
    assert after == (0.5, 100), "the behaviour changed"
PYTHON
