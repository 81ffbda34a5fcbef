#!/usr/bin/env bash
# Guess: `GradCam(network).set_target_layer(layer)` of pnpxai explains that layer, as the message of its own error advises
#   ("Please manually set the cam target layer"), and an unknown argument such as `GradCam(network, layer=layer)` fails.
# Behaviour: with pnpxai 0.1.4 both are accepted and nothing reads them: maps of the first, the second and the last
#   convolution are one map, to the last bit, that of the layer which pnpxai finds itself. `layer` returns the chosen one.
#   captum's maps of the three layers correlate by .25 to .47 with each other. GuidedGradCam reads the choice.
# Cause: `GradCam.attribute` (pnpxai/explainers/grad_cam.py) calls `find_cam_target_layer` instead of `self.layer`, and
#   `Explainer.__init__` swallows keywords (pnpxai/explainers/base.py).
# Why it matters: a study of the layer finds that it does not matter. Networks that cannot be traced still fail, after
#   the advice was followed.
# Versions: pnpxai 0.1.4, zennit 0.5.1, captum 0.9.0, timm 1.0.31, transformers 5.24.0, torch 2.13.0, torchvision 0.28.0,
#   numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pnpxai==0.1.4 zennit==0.5.1 captum==0.9.0 timm==1.0.31 transformers==5.24.0 \
  torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from captum.attr import LayerGradCam
from pnpxai.explainers import GradCam, GuidedGradCam
from torch import nn

torch.manual_seed(0)
convolutions = [nn.Conv2d(3 if number == 0 else 8, 8, 3, padding=1) for number in range(3)]
layers = [layer for convolution in convolutions for layer in (convolution, nn.ReLU())]
network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)).eval()
images = torch.randn(16, 3, 32, 32)
classes = network(images).argmax(1)
found, guided, right = [], [], []
for layer in convolutions:
    explain = GradCam(network).set_target_layer(layer)
    assert explain.layer is layer
    found.append(explain.attribute(images, classes).detach())
    found.append(GradCam(network, layer=layer).attribute(images, classes).detach())
    guided.append(GuidedGradCam(network, layer).attribute(images, classes).detach())
    right.append(LayerGradCam(network, layer).attribute(images, classes).detach())
assert all(torch.equal(maps, found[0]) for maps in found), "the behaviour changed"
assert not torch.equal(guided[0], guided[1]), "GuidedGradCam changed"
distinct = torch.corrcoef(torch.stack(right).flatten(1))
print("six calls for three layers: one map")
pairs = ", ".join(f"{distinct[pair]:.2f}" for pair in ((0, 1), (0, 2), (1, 2)))
print(f"captum's maps of the layers correlate by {pairs}")
assert distinct.min() < 0.9, "captum's maps changed"
PYTHON
