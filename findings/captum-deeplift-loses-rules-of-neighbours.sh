#!/usr/bin/env bash
# Guess: captum's DeepLift applies its rule to each ReLU and each MaxPool, so contributions sum to the difference of
#   outputs, and equal those of shap's DeepExplainer, which has the same rules.
# Behaviour: with captum 0.9.0 the rule of the second of two such neighbours is computed and thrown away; the plain
#   gradient takes its place. Here sums miss the difference of outputs by 40 % of its mean behind ReLU and MaxPool, also
#   with a Dropout (in eval mode) between them, and by 20 % behind MaxPool and ReLU. From a black baseline sums behind
#   ReLU and MaxPool are right, so the convergence delta shows nothing, while single values are wrong by up to 18 % of
#   the largest. With `1.0 * x` between both, which changes no output, contributions equal shap's.
# Cause: `_register_backward_hook` (captum/_utils/common.py) hooks tensors. The output of the first is the input of the
#   second, and the first's hook, which reads the gradient, runs before the second's, which replaces it.
# Why it matters: ReLU and MaxPool are neighbours in VGG, AlexNet and the stem of a ResNet. roarbench refuses its
#   own DeepLIFT where contributions do not add up.
# Versions: captum 0.9.0, shap 0.51.0, torch 2.13.0, numpy 2.4.6. Symptom without cause:
#   https://github.com/meta-pytorch/captum/issues/1104.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q captum==0.9.0 shap==0.51.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from captum.attr import DeepLift
from shap import DeepExplainer
from torch import nn


class One(nn.Module):
    def forward(self, x):
        return 1.0 * x


torch.manual_seed(0)
first, last = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(512, 5)
images = torch.randn(4, 3, 16, 16, dtype=torch.float64)
another = torch.randn(1, 3, 16, 16, dtype=torch.float64) / 2
for name, middle in (
    ("ReLU, MaxPool", (nn.ReLU(), nn.MaxPool2d(2))),
    ("ReLU, Dropout, MaxPool", (nn.ReLU(), nn.Dropout(), nn.MaxPool2d(2))),
    ("MaxPool, ReLU", (nn.MaxPool2d(2), nn.ReLU())),
):
    network = nn.Sequential(first, *middle, nn.Flatten(), last).double().eval()
    apart = nn.Sequential(first, *middle[:-1], One(), middle[-1], nn.Flatten(), last).double().eval()
    assert torch.equal(network(images), apart(images))
    for origin, baseline in (("black", torch.zeros_like(another)), ("another image", another)):
        change = (network(images) - network(baseline))[:, 0].detach()
        found, right = (DeepLift(each).attribute(images, baseline, target=0).detach() for each in (network, apart))
        shap = torch.tensor(DeepExplainer(network, baseline).shap_values(images, check_additivity=False)[..., 0])
        missed = (found.sum((1, 2, 3)) - change).abs().sum() / change.abs().sum()
        wrong = (found - shap).abs().max() / shap.abs().max()
        print(f"{name}, from {origin}: sums miss by {missed:.0%}, single values by up to {wrong:.0%}")
        assert torch.allclose(right, shap) and torch.allclose(shap.sum((1, 2, 3)), change), "the reference is wrong"
        assert wrong > 0.05, "the behaviour changed"
        assert (missed < 1e-9) == (name != "MaxPool, ReLU" and origin == "black"), "the behaviour changed"
PYTHON
