#!/usr/bin/env bash
# Guess: the rules of LRP work on pruned or normalised layers as on the same network with plain weights, or are refused.
# Behaviour: the rules that change weights (gamma, alpha-beta, z+) do not. With captum 0.9.0 they are the epsilon rule
#   on layers of `torch.nn.utils.prune`, to the last bit. With zennit 0.5.1 they are no known rule on pruned layers and
#   on `parametrizations.weight_norm`: values are wrong by 2.4 (gamma), 19 (z+) and 44 (alpha-beta) times the largest
#   right one. The epsilon rule is right in both. captum refuses `parametrizations`.
# Cause: such a layer has no parameter `weight`; it is computed from others before each call. captum changes a tensor
#   that the next call replaces (`_manipulate_weights`, captum/attr/_utils/lrp_rules.py); zennit changes what
#   `named_parameters` lists (`ParamMod`, zennit/core.py), the bias alone.
# Why it matters: pruned networks and normalised ones are compared with plain ones. roarbench makes plain weights first.
# Versions: zennit 0.5.1, captum 0.9.0, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q zennit==0.5.1 captum==0.9.0 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import copy
import sys

import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from captum.attr import LRP
from captum.attr._utils import lrp_rules
from zennit import rules
from zennit.attribution import Gradient
from zennit.composites import LayerMapComposite
from zennit.types import Linear


def explain_by_zennit(network, rule):
    with Gradient(model=network, composite=LayerMapComposite([(Linear, rule)])) as explain:
        return explain(images, torch.eye(4)[[0] * len(images)])[1].detach()


def explain_by_captum(network, rule):
    for layer in network:
        layer.rule = rule() if isinstance(layer, nn.Linear) else lrp_rules.IdentityRule()
    return LRP(network).attribute(images, target=0).detach()


torch.manual_seed(0)
images = torch.rand(8, 30)
plain = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 4)).eval()
pruned, normalised = copy.deepcopy(plain), copy.deepcopy(plain)
for layer in (0, 2):
    prune.random_unstructured(pruned[layer], "weight", amount=1)  # removes one weight
    parametrizations.weight_norm(normalised[layer])
removed = copy.deepcopy(plain)
for layer in (0, 2):
    removed[layer].weight.data = pruned[layer].weight.detach().clone()
pairs = {"pruned": (removed, pruned), "weight_norm": (plain, normalised)}
zennit = {"epsilon": rules.Epsilon(), "gamma": rules.Gamma(), "z+": rules.ZPlus(), "alpha-beta": rules.AlphaBeta()}
captum = {
    "epsilon": lrp_rules.EpsilonRule,
    "gamma": lrp_rules.GammaRule,
    "alpha-beta": lrp_rules.Alpha1_Beta0_Rule,
}
for library, kinds, explain, tried in (
    ("zennit", ["pruned", "weight_norm"], explain_by_zennit, zennit),
    ("captum", ["pruned"], explain_by_captum, captum),
):
    for kind in kinds:
        same, network = pairs[kind]
        assert torch.allclose(same(images), network(images), atol=1e-6)
        epsilon = explain(network, tried["epsilon"])
        for name, rule in tried.items():
            right, found = explain(same, rule), explain(network, rule)
            wrong = float((found - right).abs().max() / right.abs().max())
            print(f"{library}, {kind}, {name}: wrong by {wrong:.2g} of the largest value")
            assert (wrong > 0.5) == (name != "epsilon"), "the behaviour changed"
            assert library == "zennit" or torch.equal(found, epsilon), "the behaviour changed"
PYTHON
