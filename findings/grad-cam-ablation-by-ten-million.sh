#!/usr/bin/env bash
# Guess: Ablation-CAM of grad-cam sets one channel at a time to 0, as the paper does, so a map depends on neither
#   `batch_size` nor on which channels share a batch.
# Behaviour: with grad-cam 1.5.7 this holds only if the layer's smallest value is exactly 0. Otherwise channel k of a
#   batch gets about -k times ten million. Behind SiLU, pooling and a linear layer a channel's weight is the layer's
#   weight times its place in the batch: maps correlate by .12 with those of zeros, and by .85 between batch sizes. Behind
#   ReLU both are 1.00.
# Cause: `AblationLayer.__call__` (pytorch_grad_cam/ablation_layer.py) subtracts 1e7 from the smallest value of a batch
#   that it is writing into, so each channel starts from the last one's. This serves layers with a ReLU behind them.
# Why it matters: the last features of EfficientNet (SiLU) and ConvNeXt have no ReLU. The weights of
#   channels then say nothing about the image: they are the last layer's, times a place in a batch.
# Versions: grad-cam 1.5.7, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q grad-cam==1.5.7 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PYTHON'
import sys

import numpy as np
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

from pytorch_grad_cam import AblationCAM
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

image = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def build(activation):
    torch.manual_seed(0)
    convolutions = (nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 64, 3, padding=1), activation)
    return nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 5)).eval()


def explain_by_zeros(network):
    features = network[:4](image).detach()
    changed = features.repeat(64, 1, 1, 1)
    changed[range(64), range(64)] = 0
    logit = network(image)[0, 1]
    weights = (logit - network[4:](changed)[:, 1]) / logit
    return (weights[:, None, None] * features[0]).sum(0).clamp(min=0).detach().numpy()


for activation in (nn.ReLU(), nn.SiLU()):
    found = {}
    for batch in (1, 8, 32):
        network = build(activation)
        with AblationCAM(network, [network[3]], batch_size=batch) as cam:
            found[batch] = cam(image, [ClassifierOutputTarget(1)])[0]
    zeros = explain_by_zeros(build(activation))
    right = np.corrcoef(found[1].ravel(), zeros.ravel())[0, 1]
    batches = min(np.corrcoef(found[1].ravel(), found[batch].ravel())[0, 1] for batch in (8, 32))
    print(f"{activation}: r = {right:.2f} with maps of zeros, down to {batches:.2f} between batch sizes")
    expected = isinstance(activation, nn.ReLU)
    assert (right > 0.99) == (batches > 0.99) == expected, "the behaviour changed"
    assert expected or (right < 0.5 and batches < 0.9), "the behaviour changed"
PYTHON
