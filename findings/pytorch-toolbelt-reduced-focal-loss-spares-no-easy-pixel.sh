#!/usr/bin/env bash
# Guess: `CrossEntropyFocalLoss(reduced_threshold=.5)` of pytorch-toolbelt is the reduced focal loss that it cites: pixels
#   whose class has a probability below .5 count fully, and surer ones the less, the surer they are; so does its
#   `BinaryFocalLoss(reduced_threshold=.5)`.
# Behaviour: with pytorch-toolbelt 0.8.0 it is the other way round. Pixels with .5 to .99 all count fully, and those
#   with .4, .2 and .05 count 1.44, 2.56 and 3.61 times. A pixel that is right by .9 has 25 times the weight of the paper's.
#   `BinaryFocalLoss` has .0004, .04 and .36 for .99, .9 and .7, and 1 below .5, as it should.
# Cause: in `softmax_focal_loss_with_logits` (pytorch_toolbelt/losses/functional.py) `pt` is one minus the probability,
#   but it is compared with the threshold like the probability.
# Why it matters: the reduced loss is chosen so that rare and hard pixels are not drowned by easy ones; here the easy ones,
#   nearly all of the background, keep all of their weight, and wrong labels get the highest. It falls in training like any
#   other. https://github.com/BloodAxe/pytorch-toolbelt/pull/102 mended the binary loss and calls the softmax one right.
# Versions: pytorch-toolbelt 0.8.0, torch 2.13.0, torchvision 0.28.0, opencv-python 5.0.0.93, scipy 1.17.1,
#   numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pytorch-toolbelt==0.8.0 torch==2.13.0 torchvision==0.28.0 \
  opencv-python==5.0.0.93 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from pytorch_toolbelt.losses import BinaryFocalLoss, CrossEntropyFocalLoss

for probability in (0.99, 0.9, 0.7, 0.4, 0.2, 0.05):
    by_paper = 1.0 if probability < 0.5 else ((1 - probability) / 0.5) ** 2
    softmax = torch.tensor([[probability, 1 - probability]]).log(), torch.tensor([0])
    sigmoid = torch.tensor([probability]).logit(), torch.ones(1)

    def weigh(make, inputs, **settings):
        """Return the weight of a pixel, which is its loss divided by its loss with gamma = 0."""
        losses = [make(gamma=gamma, reduced_threshold=0.5, **settings)(*inputs) for gamma in (2.0, 0.0)]
        return (losses[0] / losses[1]).item()

    here = weigh(CrossEntropyFocalLoss, softmax)
    binary = weigh(BinaryFocalLoss, sigmoid, alpha=None)
    print(f"probability {probability}: weight {here:.4g}, binary {binary:.4g}, by the paper {by_paper:.4g}")
    assert abs(binary - by_paper) < 1e-4
    wrong = 1 if probability > 0.5 else ((1 - probability) / 0.5) ** 2
    assert abs(here - wrong) < 1e-4, "the behaviour changed"
PYTHON
