#!/usr/bin/env bash
# Guess: EigenCAM is bright where the features of the first principal component are strong, so on the object.
# Behaviour: with grad-cam 1.5.7 the sign of each map is that of a singular vector, which is arbitrary: of 64 maps of a
#   network with 100 % accuracy, 34 to 94 % (three networks) are dark on the object and bright beside it. So are 34
#   to 81 % of the maps of Grad-CAM with `eigen_smooth=True`; no map of plain Grad-CAM is, nor of the paper's definition.
# Cause: `get_2d_projection` (pytorch_grad_cam/utils/svd_on_activations.py) centres the features first. Without that all
#   entries of the vector of non-negative features have one sign, and an absolute value is enough; with it nothing
#   fixes the sign, and `np.maximum(cam, 0)` (base_cam.py) throws the other half away.
# Why it matters: the sign changes from image to image and with the linear algebra library, so means over images compare
#   estimators with their own negative. Symptom: https://github.com/jacobgil/pytorch-grad-cam/issues/315.
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

from pytorch_grad_cam import EigenCAM, GradCAM
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget


def draw(number, seed):
    generator = torch.Generator().manual_seed(seed)
    images = 0.2 * torch.rand(number, 3, 32, 32, generator=generator)
    classes = torch.randint(3, (number,), generator=generator)
    objects = np.zeros((number, 32, 32), bool)
    for image, colour, place in zip(images, classes, objects):
        row, column = torch.randint(20, (2,), generator=generator)
        image[colour, row : row + 12, column : column + 12] += 0.6
        place[row : row + 12, column : column + 12] = True
    return images, classes, objects


def train(seed):
    torch.manual_seed(seed)
    first, last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 3))
    network = nn.Sequential(first, nn.ReLU(), nn.MaxPool2d(2), last, nn.ReLU(), *head)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    images, classes, _ = draw(256, 0)
    for _ in range(40):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(images), classes).backward()
        optimiser.step()
    return network.eval()


def explain_by_paper(network):
    features = network[:5](images).detach().flatten(2).transpose(1, 2)
    vectors = torch.linalg.svd(features, full_matrices=False).Vh[:, :1]
    maps = (features * vectors).sum(2).abs().reshape(-1, 1, 16, 16)
    return nn.functional.interpolate(maps, scale_factor=2)[:, 0].numpy()


def count_dark(maps):
    return float(np.mean([each[place].mean() < each[~place].mean() for each, place in zip(maps, objects)]))


images, classes, objects = draw(64, 1)
targets = [ClassifierOutputTarget(int(label)) for label in classes]
for seed in range(3):
    network = train(seed)
    assert (network(images).argmax(1) == classes).all()
    with EigenCAM(network, [network[4]]) as cam:
        eigen = count_dark(cam(images, targets))
    with GradCAM(network, [network[4]]) as cam:
        plain, smooth = count_dark(cam(images, targets)), count_dark(cam(images, targets, eigen_smooth=True))
    paper = count_dark(explain_by_paper(network))
    print(f"dark on the object: EigenCAM {eigen:.0%}, by its paper {paper:.0%}")
    print(f"    Grad-CAM {plain:.0%}, with eigen_smooth {smooth:.0%}")
    assert plain == paper == 0 and eigen > 0.1 and smooth > 0.1, "the behaviour changed"
PYTHON
