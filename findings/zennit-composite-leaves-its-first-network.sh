#!/usr/bin/env bash
# Guess: one zennit composite serves several networks, as its rules are templates that `register` copies: within
#   `with Gradient(a, composite) as explain_a, Gradient(b, composite) as explain_b` both networks have its rules.
# Behaviour: with zennit 0.5.1 only the network that was registered last has them. `explain_a` returns the plain
#   gradient, to the last bit, without a warning or an error; `explain_b` is right. With a composite each, both are right.
# Cause: `Composite.register` (zennit/core.py) calls `self.remove()` first, which removes the hooks of the composite from
#   every network; so its docstring, which the documentation of attributors does not repeat.
# Why it matters: maps of a network are compared with those of a randomised twin or of siblings, with one composite for
#   all. The first networks then have another estimator than the last, and a sanity check passes for this reason alone.
#   roarbench compares each network's gradient with the derivative of its logits, so a network with rules is told.
# Versions: zennit 0.5.1, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q zennit==0.5.1 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
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
from zennit.composites import EpsilonPlus

torch.manual_seed(0)
images, classes = torch.randn(2, 3, 12, 12), torch.eye(4)[[0, 1]]


def make_network():
    layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4)
    return nn.Sequential(*layers).eval()


def explain_alone(network, composite):
    with Gradient(network, composite) as explain:
        return explain(images, classes)[1]


networks = make_network(), make_network()
rules = [explain_alone(network, EpsilonPlus()) for network in networks]
plain = [explain_alone(network, None) for network in networks]
shared = EpsilonPlus()
with Gradient(networks[0], shared) as explain_first, Gradient(networks[1], shared) as explain_last:
    together = explain_first(images, classes)[1], explain_last(images, classes)[1]
for name, made, rule, gradient in zip(("first", "last"), together, rules, plain, strict=True):
    similar = torch.corrcoef(torch.stack([made.flatten(), rule.flatten()]))[0, 1]
    equal = [word for word, other in (("EpsilonPlus", rule), ("gradient", gradient)) if torch.equal(made, other)]
    print(f"{name} network: the map is that of {equal}; correlation with EpsilonPlus {similar:.2f}")
assert torch.equal(together[0], plain[0]) and not torch.equal(plain[0], rules[0]), "the behaviour changed"
assert torch.equal(together[1], rules[1]) and not torch.equal(plain[1], rules[1]), "the behaviour changed"
PYTHON
