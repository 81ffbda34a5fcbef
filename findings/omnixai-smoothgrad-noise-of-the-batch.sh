#!/usr/bin/env bash
# Guess: the noise of OmniXAI's SmoothGrad is a share (`sigma`) of the range of an image, as in the paper, so an image
#   has one map, alone or in a batch, up to the chance of the noise.
# Behaviour: with OmniXAI 1.3.1 it is a share of the range of the *batch*. An image of little contrast explained beside
#   one of full contrast has four times the noise: its map is 22 % of the gradient's size from its map alone, where two
#   runs alone differ by 2 %, and its correlation with the gradient falls from .987 to .951.
# Cause: `_smooth_grad_torch` (omnixai/explainers/vision/specific/utils.py) takes the largest and smallest value over
#   all images; the guided variant and those for TensorFlow do the same.
# Why it matters: maps depend on which images share a call. Over a data set, most images have the noise of the most
#   contrasty one beside them, and a loader of batch size 1 gives other maps and scores.
# Versions: omnixai 1.3.1, lime 0.2.0.1, shap 0.51.0, SALib 1.6.0, openai 3.57.0, setuptools 80.9.0, torch 2.13.0,
#   scikit-learn 1.9.1, scipy 1.17.1, pandas 3.1.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q lime==0.2.0.1 shap==0.51.0 SALib==1.6.0 openai==3.57.0 ipython==9.18.1 dill==0.4.1 \
    setuptools==80.9.0 torch==2.13.0 scikit-learn==1.9.1 scipy==1.17.1 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps omnixai==1.3.1  # requires NumPy below 1.24
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch
from omnixai.data.image import Image
from omnixai.explainers.vision.specific.smoothgrad import SmoothGrad
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 14 * 14, 4)).eval()
generator = np.random.default_rng(0)
dim = generator.integers(100, 160, (16, 16, 3), dtype=np.uint8)
full = generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)
full[0, :2] = [[0] * 3, [255] * 3]


def preprocess(images):
    return torch.tensor(images.to_numpy() / 255).permute(0, 3, 1, 2).float()


explainer = SmoothGrad(network, preprocess_function=preprocess)


def explain(*images, seed=0):
    """Return the map of class 0 of the first image."""
    np.random.seed(seed)
    batch = Image(np.stack(images), batched=True)
    return explainer.explain(batch, y=[0] * len(images), num_samples=200, sigma=0.1).explanations[0]["scores"]


def explain_by_hand(spread):
    """Average gradients of the dim image with noise of `spread`."""
    noisy = preprocess(Image(dim[None], batched=True)).repeat(200, 1, 1, 1)
    noisy = (noisy + spread * torch.tensor(generator.standard_normal(noisy.shape)).float()).requires_grad_()
    return torch.autograd.grad(network(noisy)[:, 0].sum(), noisy)[0].mean(0).permute(1, 2, 0).numpy()


gradient = explain_by_hand(0)
alone, again, beside = explain(dim), explain(dim, seed=1), explain(dim, full)


def compare(first, second):
    return float(np.abs(first - second).mean() / np.abs(gradient).mean())


def correlate(heatmap):
    return float(np.corrcoef(heatmap.ravel(), gradient.ravel())[0, 1])


share = (dim.max() - dim.min()) / 255
print(f"range of the dim image {share:.2f}, of the batch 1")
print(f"alone and again: {compare(alone, again):.1%}; alone and beside another: {compare(alone, beside):.1%}")
print(f"correlation with the gradient: alone {correlate(alone):.3f}, beside another {correlate(beside):.3f}")
assert compare(alone, explain_by_hand(0.1 * share)) < 0.05 and compare(beside, explain_by_hand(0.1)) < 0.1
assert compare(alone, again) < 0.05 and compare(alone, beside) > 0.15, "the behaviour changed"
PYTHON
