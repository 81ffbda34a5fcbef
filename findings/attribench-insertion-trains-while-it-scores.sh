#!/usr/bin/env bash
# Guess: `insertion` of attribench scores the network in evaluation mode, as its `deletion` does, so insertion of the
#   most important pixels is deletion of the least important ones, read from the other end.
# Behaviour: with attribench 0.1.9 `insertion` does not call `model.eval()`. A network as its class makes it, with
#   weights that were loaded, drops units, and its batch norms normalise each batch of partly black images by that batch
#   and keep the statistics. For random maps it gives the right class a probability of .88 on whole images, where
#   `deletion` of the same network says .99, and .54 where a tenth is inserted, where it says .41. Called after
#   `deletion`, it gives deletion's numbers. `deletion` after `insertion` differs from `deletion` before.
# Cause: `insertion` (attribench/functional/metrics/_insertion.py) lacks the lines `model.to(device)` and
#   `model.eval()` with which `deletion` begins. `infidelity` lacks them, too.
# Why it matters: the scores of all metrics depend on the order in which a script calls them, and a network is changed
#   by being judged. No issue on it was found.
# Versions: attribench 0.1.9 (it asks for torch below 2, which nothing here depends on), torch 2.13.0, torchvision
#   0.28.0, statsmodels 0.15.0, patsy 1.0.3, pandas 3.1.1, h5py 3.16.0, scikit-image 0.26.0, opencv-python-headless
#   5.0.0.93, pyyaml 6.0.3, tqdm 4.70.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 torchvision==0.28.0 statsmodels==0.15.0 patsy==1.0.3 pandas==3.1.1 \
  h5py==3.16.0 scikit-image==0.26.0 opencv-python-headless==5.0.0.93 pyyaml==6.0.3 tqdm==4.70.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps attribench==0.1.9
"$folder/venv/bin/python" -W ignore - 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import sys

import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from attribench.data import AttributionsDataset
from attribench.functional.metrics import deletion, insertion
from attribench.masking.image import ConstantImageMasker
from torch import nn
from torch.nn import functional as F

generator = torch.Generator().manual_seed(0)
classes = torch.randint(4, (256,), generator=generator)
prototypes = F.interpolate(torch.randn(4, 3, 4, 4, generator=generator), size=16, mode="bilinear")
images = prototypes[classes] + 3 * torch.randn(256, 3, 16, 16, generator=generator)
maps = torch.rand(64, 3, 16, 16, generator=generator)
data = AttributionsDataset(images[:64], classes[:64], attributions={"random": maps})


def make_network():
    """Return a new network, which is in training mode as every module of torch."""
    stem = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()
    return nn.Sequential(*stem, nn.Dropout(0.8), nn.Linear(256, 4))


torch.manual_seed(0)
trained = make_network()
optimizer = torch.optim.Adam(trained.parameters(), 1e-2)
for _ in range(25):
    optimizer.zero_grad()
    F.cross_entropy(trained(images), classes).backward()
    optimizer.step()


def score(*metrics):
    """Return the mean probability of the right class at 0, .1 … 1, of each metric, called in turn on one network."""
    network = make_network()
    network.load_state_dict(trained.state_dict())
    maskers, curves = {"black": ConstantImageMasker("feature")}, []
    for metric, mode in metrics:
        torch.manual_seed(0)
        result = metric(network, data, 32, maskers, "softmax", mode=mode, num_steps=11)
        curves.append(torch.tensor(result.tree.get(masker="black", activation_fn="softmax", method="random")).mean(0))
    return curves


inserted, deleted_later = score((insertion, "morf"), (deletion, "morf"))
deleted, inserted_later = score((deletion, "morf"), (insertion, "morf"))
(reverse,) = score((deletion, "lerf"))
assert torch.allclose(inserted_later, reverse.flip(0)), "the behaviour changed"
print(f"whole images: insertion {inserted[-1]:.2f}, deletion {deleted[0]:.2f}, after it {inserted_later[-1]:.2f}")
print(f"a tenth inserted: insertion {inserted[1]:.2f}, after deletion {inserted_later[1]:.2f}")
print(f"half deleted: before insertion {deleted[5]:.3f}, after it {deleted_later[5]:.3f}")
assert deleted[0] - inserted[-1] > 0.05 and inserted[1] - inserted_later[1] > 0.05, "the behaviour changed"
assert (deleted_later - deleted).abs().max() > 0.01, "the behaviour changed"
PYTHON
