#!/usr/bin/env bash
# Guess: DeepLIFT explains each image for itself, so a batch is only faster.
# Behaviour: with captum 0.9.0 and an `nn.Softmax` in the network the map of an image depends on the other images of the
#   batch. Here maps from one batch of 16 correlate by .44 with those that the images get alone; the median change is
#   1.6 times the largest value. Without the Softmax, and with shap's DeepExplainer with it, batches change nothing.
# Cause: `softmax` (captum/attr/_core/deep_lift.py) subtracts `grad_input.sum() / grad_input.numel()`, a mean over all
#   images and their baselines instead of over the classes of one.
# Why it matters: Keras-like classifiers end in a Softmax, attention contains one. The size of the last batch, or the
#   order of a data set, changes scores. roarbench warns of both, the Softmax and the dependence.
# Versions: captum 0.9.0, shap 0.51.0, torch 2.13.0, numpy 2.4.6. Near, on whether to subtract anything:
#   https://github.com/meta-pytorch/captum/issues/1367.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q captum==0.9.0 shap==0.51.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch
from captum.attr import DeepLift
from shap import DeepExplainer
from torch import nn

torch.manual_seed(0)
images = torch.randn(16, 20)
layers = [nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4)]
for name, network in (("logits", nn.Sequential(*layers)), ("softmax", nn.Sequential(*layers, nn.Softmax(1)))):
    captum, shap = DeepLift(network.eval()), DeepExplainer(network, torch.zeros(1, 20))
    explainers = {
        "captum": lambda images: captum.attribute(images, target=1).detach().numpy(),
        "shap": lambda images: shap.shap_values(images, check_additivity=False)[..., 1],
    }
    for library, explain in explainers.items():
        alone, beside = np.concatenate([explain(image[None]) for image in images]), explain(images)
        change = np.median(np.abs(alone - beside).max(1) / np.abs(alone).max(1))
        alike = np.mean([np.corrcoef(*each)[0, 1] for each in zip(alone, beside)])
        print(f"{name}, {library}: r = {alike:.2f}, change {change:.2g}")
        assert (change > 0.5) == (name == "softmax" and library == "captum"), "the behaviour changed"
PYTHON
