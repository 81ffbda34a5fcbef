#!/usr/bin/env bash
# Guess: `self_attribute` of dattri's influence functions is the diagonal of `attribute`, an image's influence on its
#   own loss, whatever the batch size of the loader; a batch of one image is the safest.
# Behaviour: with dattri 0.3.0 batches of one image give every image one score, the sum of all images' scores: 12 times
#   39.6 here, where one batch of all 12 images has the diagonal, from .23 to 10.4, with both mislabelled images on top.
#   So it is with the explicit and the DataInf attributor, which share the function with the other influence functions.
#   `attribute` is right in batches of four, too. TracIn has a function of its own.
# Cause: `BaseInnerProductAttributor.self_attribute` (dattri/algorithm/base.py) adds the scores of a batch to the whole
#   result and not to the batch's places. One score is added to all; other sizes end in an error about shapes.
# Why it matters: self-influence is the score for mislabelled images. Gradients of all images at once do not fit into
#   memory, an error refuses the sizes between, and batches of one run through.
# Versions: dattri 0.3.0, torch 2.13.0, scipy 1.17.1, tqdm 4.68.0, PyYAML 6.0.3, numpy 2.4.6. The function was asked for
#   in https://github.com/TRAIS-Lab/dattri/issues/160.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 scipy==1.17.1 tqdm==4.68.0 pyyaml==6.0.3 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps dattri==0.3.0
"$folder/venv/bin/python" -W ignore - 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import torch
from dattri.algorithm import IFAttributorDataInf, IFAttributorExplicit
from dattri.task import AttributionTask
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images, mislabelled = torch.randn(12, 5), torch.arange(12) % 6 == 0
labels = (images[:, 0] > 0).long() ^ mislabelled.long()
network = nn.Linear(5, 2)
optimiser = torch.optim.SGD(network.parameters(), lr=0.5)
for _ in range(200):
    optimiser.zero_grad()
    nn.functional.cross_entropy(network(images), labels).backward()
    optimiser.step()


def compute_loss(parameters, batch):
    return nn.functional.cross_entropy(torch.func.functional_call(network, parameters, batch[0]), batch[1].long())


def load(size):
    return DataLoader(TensorDataset(images, labels), size)


task = AttributionTask(compute_loss, network, network.state_dict())
for attributor in (IFAttributorExplicit, IFAttributorDataInf):
    attributor = attributor(task, regularization=0.1)
    attributor.cache(load(12))
    diagonals = [attributor.attribute(load(size), load(12)).detach().diagonal() for size in (12, 4)]
    right, alone = (attributor.self_attribute(load(size)).detach() for size in (12, 1))
    torch.testing.assert_close(torch.stack(diagonals), right.expand(2, 12), rtol=1e-3, atol=1e-3)
    try:
        attributor.self_attribute(load(4))
        raise SystemExit("the behaviour changed: batches of four are taken")
    except RuntimeError:
        pass
    name, highest = type(attributor).__name__, mislabelled[right.argsort(descending=True)[: mislabelled.sum()]].sum()
    print(f"{name}: {right.min():.2f} to {right.max():.1f}, {highest} of {mislabelled.sum()} mislabelled images on top")
    print(f"  in batches of one {alone.min():.4g} to {alone.max():.4g}, the sum of all is {right.sum():.4g}")
    torch.testing.assert_close(alone, right.sum().expand(12), msg="the behaviour changed")
PYTHON
