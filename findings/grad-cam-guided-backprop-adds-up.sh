#!/usr/bin/env bash
# Guess: `GuidedBackpropReLUModel` of grad-cam, called for class 0 and then for class 1 with one image, returns the maps
#   of class 0 and of class 1.
# Behaviour: with grad-cam 1.5.7 it returns one array twice: the sum of both maps. The second call adds to the first
#   one's result, also to the array that the caller holds. With a copy of the image for each call the maps are right.
# Cause: `__call__` (pytorch_grad_cam/guided_backprop.py) sets `requires_grad` on the caller's tensor, `backward` adds to
#   its `grad`, and `grad.cpu().data.numpy()` is a view of that memory on a CPU.
# Why it matters: maps of two classes, or of a network and its randomised twin, are equal although they should
#   differ, so guided backprop fails a sanity check for a reason of its own. Symptom:
#   https://github.com/jacobgil/pytorch-grad-cam/issues/401.
# Versions: grad-cam 1.5.7, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
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

from pytorch_grad_cam import GuidedBackpropReLUModel


def explain(seed, image, label):
    torch.manual_seed(seed)
    layers = (nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2304, 5))
    return GuidedBackpropReLUModel(nn.Sequential(*layers), device="cpu")(image, label)


image = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
for name, calls in (("two classes", ((0, 0), (0, 1))), ("two networks", ((0, 0), (1, 0)))):
    right = [explain(seed, image.clone(), label) for seed, label in calls]
    same = image.clone()
    found = [explain(seed, same, label) for seed, label in calls]
    alike, together = (np.corrcoef(*(each.ravel() for each in maps))[0, 1] for maps in (right, found))
    print(f"{name}: r = {alike:.2f} between the right maps, {together:.2f} between those found")
    assert alike < 0.9, "the right maps are too alike to tell"
    assert np.array_equal(found[0], found[1]), "the behaviour changed"
    assert np.allclose(found[1], right[0] + right[1], atol=1e-6), "the behaviour changed"
PYTHON
