#!/usr/bin/env bash
# Guess: `SimplEx(...).attribute(X_test, train_idx)` of lfxai gives each test image weights of the training images
#   that add up to 1, however many test images there are.
# Behaviour: with lfxai 0.1.1 the images that do not fill a batch of 50 have weights of exactly 0. Of 40 test images
#   none is explained, of 120 the last 20 are not. With `batch_size=10` all 40 have weights that add up to 1. Nothing
#   is said.
# Cause: `attribute` and `attribute_loader` (lfxai/explanations/examples.py) begin with zeros and fill
#   `int(len(X_test) / batch_size)` batches.
# Why it matters: zeros rank too. `similarity_rates` of the package takes 10 of equal values as the most important
#   images of such a row, so the unexplained images are scored near chance. That lowers the mean of SimplEx, and of no
#   other method that it is compared with: of 120 images in well separated classes from 1 to .85, and of 40 to .10.
# Versions: lfxai 0.1.1, captum 0.9.0, torch 2.13.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q captum==0.9.0 torch==2.13.0 scipy==1.17.1 numpy==2.4.6 tqdm==4.70.1
"$folder/venv/bin/pip" install -q --no-deps lfxai==0.1.1
"$folder/venv/bin/python" -W ignore - 2>&1 <<'PYTHON' | tr '\r' '\n' | grep -vE 'batch|^ *$'
import torch
from lfxai.explanations.examples import SimplEx
from lfxai.utils.metrics import similarity_rates
from torch import nn

torch.manual_seed(0)
network = nn.Module()
network.encoder = nn.Flatten()
centres = 5 * torch.randn(10, 1, 4, 4)
training_classes, classes = torch.arange(100) % 10, torch.arange(120) % 10
training, test = centres[training_classes], centres[classes]
training, test = training + 0.1 * torch.randn_like(training), test + 0.1 * torch.randn_like(test)
simplex = SimplEx(network, X_train=training)
for number, size in ((40, 50), (40, 10), (120, 50), (120, 60)):
    weights = simplex.attribute(test[:number], list(range(100)), batch_size=size)
    explained = int(torch.isclose(weights.sum(1), torch.ones(number), atol=1e-4).sum())
    zero = int((weights == 0).all(1).sum())
    rate = similarity_rates(weights, training_classes, classes[:number], [10])[0][0]
    print(f"{number} images, {size} in a part: {explained} with weights of sum 1, {zero} zeros; similar {rate:.2f}")
    assert zero == number % size and explained == number - zero, "the behaviour changed"
PYTHON
