#!/usr/bin/env bash
# Guess: zennit's rules belong to calls of a module, so a network that calls one linear layer twice has the relevance of
#   the same network with two copies of the layer; at least the sum of relevance would show a fault.
# Behaviour: with zennit 0.5.1 the relevance differs (here by up to 231, for logits below 1), without a word, and its
#   sum is still the explained logit, so the usual check of conservation passes.
# Cause: a hook keeps the input of its module in one place (`Hook.stored_tensors`, zennit/core.py), which the second call
#   overwrites before the first call's backward pass reads it.
# Why it matters: recurrent and weight-sharing networks. roarbench explains both calls or refuses in one line.
# Versions: zennit 0.5.1, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q zennit==0.5.1 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import copy
import sys

import torch
from torch import nn

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from zennit.attribution import Gradient
from zennit.composites import LayerMapComposite
from zennit.rules import Epsilon, Pass
from zennit.types import Activation, Linear

torch.manual_seed(0)
layer, last = nn.Linear(6, 6, bias=False), nn.Linear(6, 3, bias=False)
inputs = torch.randn(4, 6)
found = []
for second in (copy.deepcopy(layer), layer):
    network = nn.Sequential(layer, nn.ReLU(), second, nn.ReLU(), last)
    rules = LayerMapComposite([(Activation, Pass()), (Linear, Epsilon(1e-6))])
    with Gradient(model=network, composite=rules) as explain:
        logits, relevance = explain(inputs, torch.eye(3)[[0] * 4])
    found.append((logits.detach(), relevance))
(logits, copied), (same_logits, shared) = found
assert torch.equal(logits, same_logits)
print(f"largest difference of relevance {float((copied - shared).abs().max()):.1f}")
print(f"largest difference of its sum {float((copied.sum(1) - shared.sum(1)).abs().max()):.4f}")
assert (copied - shared).abs().max() > 1, "the behaviour changed"
assert (copied.sum(1) - shared.sum(1)).abs().max() < 1e-3, "the sum shows it"
PYTHON
