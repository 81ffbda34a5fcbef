#!/usr/bin/env bash
# Guess: `VIM` of oodeel keeps the components that explain `princ_dims` (99 % by default) of the variance, and measures
#   residuals from the origin that `pca_origin` names: "pseudo" is that of the paper, where all logits are 0.
# Behaviour: with oodeel 0.4.0 a share keeps one component fewer than explain it. Of features with shares of .986 and
#   .014, .99 needs two and gets one; .98 needs one and gets none, so the "residual" is the whole distance. Strange
#   features are found with an AUROC of .57 and .51 where `princ_dims=2` has .88. "pseudo" changes no score: the origin
#   is the mean of the features, at a distance of 57 from the one asked for.
# Cause: `_fit_layer` (oodeel/methods/vim.py) takes the place of the first cumulated share above the asked one, counted
#   from 0, as a number of components; and it asks for layer -1, where it is given the place in the list of layers.
# Why it matters: ViM is the strong baseline of OOD detection. Its results here are those of another subspace, the more
#   so the fewer components dominate; a study of the origin finds none to matter.
# Versions: oodeel 0.4.0, torch 2.13.0, torchvision 0.28.0, faiss-cpu 1.15.1, numpy 1.26.4, scikit-learn 1.5.2,
#   scipy 1.13.1, pandas 2.2.3, datasets 3.6.0, pyarrow 18.1.0. No report was found.
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
from oodeel.methods import VIM
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

draw = torch.Generator().manual_seed(0)
contrast, other = torch.zeros(1, 8), torch.zeros(1, 8)
contrast[0, :2], other[0, 6:] = (torch.tensor([1.0, -1.0]) for _ in range(2))


def make(strange):
    """Return 1,000 rows: a large common brightness, a contrast of two columns, noise, and another contrast."""
    rows = (20 + 4 * torch.randn(1000, 1, generator=draw)) * torch.ones(1, 8)
    rows += torch.randn(1000, 1, generator=draw) @ contrast + 0.05 * torch.randn(1000, 8, generator=draw)
    return rows + strange * torch.randn(1000, 1, generator=draw) @ other


known, strange = make(0), make(0.3)
network = nn.Sequential(nn.Identity(), nn.Linear(8, 2)).eval()
with torch.no_grad():
    network[1].weight.copy_(torch.cat([contrast, -contrast]))
    network[1].bias.copy_(torch.tensor([5.0, 0.0]))


def score(**settings):
    """Return a detector and its scores of known and strange rows."""
    loaders = [DataLoader(TensorDataset(rows, torch.zeros(1000).long()), batch_size=100) for rows in (known, strange)]
    detector = VIM(**settings)
    detector.fit(network, fit_dataset=loaders[0], feature_layers_id=[0])
    return detector, np.concatenate([detector.score(loader)[0] for loader in loaders])


values = np.linalg.eigvalsh(np.cov(known.numpy().T))[::-1]
shares = np.cumsum(values) / values.sum()
aurocs = {}
for dimensions in (0.98, 0.99, 1, 2):
    detector, scores = score(princ_dims=dimensions)
    kept = int(detector.princ_dims_list[0])
    aurocs[dimensions] = kept, roc_auc_score([0] * 1000 + [1] * 1000, scores)
    needed = int(np.argmax(shares > dimensions)) + 1 if dimensions < 1 else dimensions
    print(f"princ_dims={dimensions}: {needed} needed, {kept} kept, AUROC {aurocs[dimensions][1]:.3f}")
print(f"cumulated shares {shares[:3].round(4).tolist()}")
answers = {origin: score(princ_dims=2, pca_origin=origin) for origin in ("center", "pseudo")}
weight, bias = (each.detach().double() for each in network[1].parameters())
asked = -(torch.linalg.pinv(weight) @ bias)
used = answers["pseudo"][0].centers[0].double()
print(f"distance of the origin used from the one asked for {(used - asked).norm():.1f}, from the mean "
      f"{(used - known.double().mean(0)).norm():.6f}")
assert 0.98 < shares[0] < 0.99 < shares[1] and aurocs[2][1] > 0.85
assert aurocs[0.98][0] == 0 and aurocs[0.99] == aurocs[1] and aurocs[0.99][1] < 0.6, "the behaviour changed"
assert (used - asked).norm() > 50 and np.array_equal(*(each[1] for each in answers.values())), "the behaviour changed"
PYTHON
