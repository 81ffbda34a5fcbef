#!/usr/bin/env bash
# Guess: Quantus' model parameter randomisation test (MPRT) draws the weights of each layer anew, whatever its kind.
# Behaviour: with Quantus 0.6.0 it draws only the biases of layers whose weight `parametrizations.weight_norm`,
#   `spectral_norm` or `orthogonal` makes. After the last layer is "randomised" the gradient's maps correlate by 1.00
#   with those of the trained network, after all three by .51 to .77; with plain layers by .23 from the first step on.
# Cause: `get_random_layer_generator` (quantus/helpers/model/pytorch_model.py) calls `reset_parameters`, which fills
#   `layer.weight`. In a parametrized layer that is a tensor computed for this one call; torch fills it without a word.
# Why it matters: the gradient itself fails the sanity check. `nn.init` and `reset_parameters` do as little in tests of
#   one's own. roarbench fills weights with NaN first, and refuses a network in which one stays.
# Versions: quantus 0.6.0, torch 2.13.0, numpy 2.4.6.
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
from torch.nn.utils import parametrizations


def build(parametrize):
    torch.manual_seed(0)
    first, second, last = map(parametrize, [nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 3), nn.Linear(1152, 5)])
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), last).eval()


def explain(model, inputs, targets, **_):
    images = torch.tensor(np.asarray(inputs), dtype=torch.float32, requires_grad=True)
    model(images)[range(len(images)), torch.as_tensor(targets)].sum().backward()
    return images.grad.numpy()


images = np.random.default_rng(0).standard_normal((16, 1, 16, 16)).astype(np.float32)
kinds = {name: getattr(parametrizations, name) for name in ("weight_norm", "spectral_norm", "orthogonal")}
for name, parametrize in {"plain": lambda layer: layer, **kinds}.items():
    network = build(parametrize)
    classes = network(torch.tensor(images)).argmax(1).numpy()
    maps = explain(network, images, classes)
    metric = quantus.MPRT(layer_order="top_down", normalise=False, disable_warnings=True)
    scores = metric(network, images, classes, maps, channel_first=True, explain_func=explain)
    _, *steps = (float(np.mean(each)) for each in scores.values())
    print(f"{name}: rank correlation after 1, 2 and 3 of 3 layers:", ", ".join(f"{each:.2f}" for each in steps))
    assert (steps[0] > 0.99) == (steps[-1] > 0.4) == (name != "plain"), "the behaviour changed"
PYTHON
