#!/usr/bin/env bash
# Guess: grad-cam explains a batch for one class if `targets` has one `ClassifierOutputTarget`, as its README writes for
#   an image, or refuses a list that is shorter than the batch.
# Behaviour: with grad-cam 1.5.7 neither. The first image has its map and all others a map of zeros, in GradCAM,
#   HiResCAM, GradCAM++ and XGradCAM, without a word. More targets than images are left out in silence, too. With a
#   target for each image the maps are right.
# Cause: `zip(targets, outputs)` in `BaseCAM.forward` (pytorch_grad_cam/base_cam.py) ends with the shorter list, so the
#   other images have no gradient.
# Why it matters: a script for one image works at once on batches, and its maps of zeros rank all pixels alike: a random
#   order, or that of a sort, is then scored as Grad-CAM. roarbench warns of the dependence on an image's place.
# Versions: grad-cam 1.5.7, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6. Symptom without cause:
#   https://github.com/jacobgil/pytorch-grad-cam/issues/328.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q grad-cam==1.5.7 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
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

from pytorch_grad_cam import GradCAM, GradCAMPlusPlus, HiResCAM, XGradCAM
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

torch.manual_seed(0)
layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
network = nn.Sequential(*layers, nn.Linear(32, 4)).eval()
images, target = torch.randn(4, 3, 16, 16), ClassifierOutputTarget(1)
for method in (GradCAM, HiResCAM, GradCAMPlusPlus, XGradCAM):
    with method(network, [network[3]]) as cam:
        one, each, more = (cam(images, [target] * count) for count in (1, 4, 9))
    zeros = ", ".join(f"{share:.0%}" for share in (one == 0).mean((1, 2)))
    print(f"{method.__name__} of four images with one target: zeros {zeros}")
    assert np.array_equal(one[0], each[0]) and not one[1:].any() and each[1:].any((1, 2)).all(), "the behaviour changed"
    assert np.array_equal(more, each), "the behaviour changed"
PYTHON
