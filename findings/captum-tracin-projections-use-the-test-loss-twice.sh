#!/usr/bin/env bash
# Guess: `TracInCPFastRandProj` of captum without a projection (`projection_dim=None`) has the scores of `TracInCPFast`:
#   it stores one vector for each training image, so as to find the nearest, and its docstrings promise `loss_fn` for
#   training images and `test_loss_fn` for the images asked about.
# Behaviour: with captum 0.9.0 they are equal if only `loss_fn` is given. With the docstring's example of a test loss,
#   the logit of one class, the gradients of *training* images are those of this logit, too: scores correlate by -.04
#   with those of TracInCPFast, which are products of gradients by hand, and none of the five most influential images is
#   the same.
# Cause: `_get_intermediate_quantities_tracincp_fast_rand_proj` (captum/influence/_core/tracincp_fast_rand_proj.py) has
#   an argument `test` and does not read it: it calls `self.test_loss_fn` for both.
# Why it matters: the variant for large data sets finds other images than the exact one. What it computes ignores how
#   far the network is wrong about a training image, so mislabelled images, which TracIn finds, are as influential as
#   all others. A comparison blames the projection.
# Versions: captum 0.9.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q captum==0.9.0 torch==2.13.0 numpy==2.4.6
FOLDER=$folder "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import os
from pathlib import Path

import torch
from captum.influence import TracInCPFast, TracInCPFastRandProj
from captum.influence._utils.nearest_neighbors import NearestNeighbors
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset


class Exact(NearestNeighbors):
    """All products, in place of the approximate search of the package annoy."""

    def __init__(self):
        pass

    def setup(self, data):
        self.data = data

    def get_nearest_neighbors(self, query, k):
        values, indices = (query @ self.data.T).topk(k, dim=1)
        return indices, values


class LogitOfClass(nn.Module):
    """The sum of the logits of one class, the example of the docstring of `test_loss_fn`."""

    reduction = "sum"

    def forward(self, logits, classes):
        return logits[:, 2].sum()


torch.manual_seed(0)
prototypes = torch.randn(4, 20)
classes = torch.arange(200) % 4
images = prototypes[classes] + torch.randn(200, 20)
labels = torch.where(torch.arange(200) % 20 == 0, (classes + 1) % 4, classes)  # one image in twenty is mislabelled
queries, answers = prototypes[torch.arange(20) % 4] + torch.randn(20, 20), torch.arange(20) % 4
network = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4, bias=False))
optimizer = torch.optim.Adam(network.parameters(), 1e-2)
for _ in range(30):
    optimizer.zero_grad()
    F.cross_entropy(network(images), labels).backward()
    optimizer.step()
checkpoint = str(Path(os.environ["FOLDER"]) / "network.pt")
torch.save(network.state_dict(), checkpoint)


def load(model, path):
    model.load_state_dict(torch.load(path))
    return 1.0


def list_gradients(inputs, targets, loss):
    """Return the gradient of the last layer's weights for each input."""
    pairs = zip(inputs.split(1), targets.split(1))
    return torch.stack([torch.autograd.grad(loss(network(x), y), network[2].weight)[0].flatten() for x, y in pairs])


def count_common(one, other):
    """Return the share of the five training images of largest score that two methods have in common."""
    pairs = zip(one.topk(5).indices.tolist(), other.topk(5).indices.tolist())
    return sum(len({*first} & {*second}) for first, second in pairs) / (5 * len(one))


for test_loss in (None, LogitOfClass()):
    loss = nn.CrossEntropyLoss(reduction="sum")
    settings = {"loss_fn": loss, "test_loss_fn": test_loss, "batch_size": 50}
    data = TensorDataset(images, labels)
    fast = TracInCPFast(network, network[2], data, [checkpoint], load, **settings).influence((queries, answers))
    projected = TracInCPFastRandProj(
        network, network[2], data, [checkpoint], load, nearest_neighbors=Exact(), projection_dim=None, **settings
    ).influence((queries, answers), k=None)
    right = list_gradients(queries, answers, test_loss or loss) @ list_gradients(images, labels, loss).T
    assert torch.allclose(fast, right, atol=1e-4), "the behaviour changed"
    correlation = torch.corrcoef(torch.stack([projected.flatten(), right.flatten()]))[0, 1].item()
    name = type(test_loss).__name__ if test_loss else "the same loss"
    print(f"{name}: correlation {correlation:.2f}, the five largest in common: {count_common(projected, right):.2f}")
    assert correlation < 0.5 if test_loss else torch.allclose(projected, right, atol=1e-4), "the behaviour changed"
twice = list_gradients(queries, answers, LogitOfClass()) @ list_gradients(images, labels, LogitOfClass()).T
assert torch.allclose(projected, twice, atol=1e-4), "the behaviour changed"
PYTHON
