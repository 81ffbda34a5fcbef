#!/usr/bin/env bash
# Guess: `attribute_auxiliary` of lfxai explains the latent vector of each image with captum's GradientShap, whatever
#   other images are in the batch. For a linear encoder W and a black baseline the map of image x is x * (W'W x),
#   whatever is drawn at random.
# Behaviour: with lfxai 0.1.1 and captum 0.9.0 this holds for batches of one image. In batches of 2 the maps correlate
#   by .84 with it, in a batch of 16 by .27, and change with the other images. Integrated gradients are exact in each
#   batch.
# Cause: captum's GradientShap repeats each image `n_samples` times in a row (1, 1, 2, 2), integrated gradients repeat
#   the batch (1, 2, 1, 2). `AuxiliaryFunction` (lfxai/explanations/features.py) repeats the latent vectors in the
#   second way for all methods, and asks only that the numbers divide. So images are explained for latent vectors of
#   others.
# Why it matters: GradientShap loses a comparison of methods by its batch size, and gains by a smaller GPU. A test
#   with one image passes.
# Versions: lfxai 0.1.1, captum 0.9.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q captum==0.9.0 torch==2.13.0 numpy==2.4.6 tqdm==4.70.1
"$folder/venv/bin/pip" install -q --no-deps lfxai==0.1.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from captum.attr import GradientShap, IntegratedGradients
from lfxai.explanations.features import attribute_auxiliary
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 8, bias=False))
images = torch.randn(16, 1, 8, 8)
weights = encoder[1].weight.detach()
right = (images.flatten(1) @ weights.T @ weights).view_as(images) * images
found = {}
for method in (IntegratedGradients, GradientShap):
    for size in (1, 2, 16):
        loader = DataLoader(TensorDataset(images, torch.zeros(16)), batch_size=size)
        maps = attribute_auxiliary(encoder, loader, torch.device("cpu"), method(encoder), torch.zeros(1, 1, 8, 8))
        pairs = zip(torch.from_numpy(maps), right, strict=True)
        each = [torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1].item() for one, other in pairs]
        found[method, size] = sum(each) / 16
        print(f"{method.__name__}, {size} in a batch: correlation with exact maps {found[method, size]:.2f}")
        assert (found[method, size] > 0.999) == (method is IntegratedGradients or size == 1), "the behaviour changed"
assert found[GradientShap, 16] < 0.5, "the behaviour changed"
PYTHON
