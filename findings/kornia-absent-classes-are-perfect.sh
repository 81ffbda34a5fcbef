#!/usr/bin/env bash
# Guess: `kornia.metrics.mean_iou`, whose name promises a mean, leaves out classes that neither the prediction nor the truth
#   has, or gives them no value, so the mean does not depend on how many classes the data set could have had.
# Behaviour: with kornia 0.9.0 an absent class has an intersection over union of 1. An image of which half is an object, all
#   of it predicted as background, has .50 and .00 for the two classes that occur, .25 on average; with `num_classes=21` the
#   mean of the answer is .93, with 150 classes .99. torchmetrics has .25 for all three.
# Cause: `mean_iou` (kornia/metrics/mean_iou.py) adds `eps` to the numerator and the denominator, so 0 / 0 becomes 1; its
#   notes say so, and leave the exclusion and the mean to the caller.
# Why it matters: localisation of explanations and segmentation are scored by this mean, image by image. The more classes a
#   data set has, the better each network and each map looks, and differences between them shrink by the same factor.
# Versions: kornia 0.9.0, torch 2.13.0 (CPU), torchmetrics 1.9.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 kornia==0.9.0 torchmetrics==1.9.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from kornia.metrics import mean_iou
from torchmetrics.functional import jaccard_index

truth = torch.zeros(1, 64, 64, dtype=torch.long)
truth[:, :, 32:] = 1
predicted = torch.zeros_like(truth)
for classes in (2, 21, 150):
    by_class = mean_iou(predicted, truth, classes)[0]
    present = jaccard_index(predicted, truth, task="multiclass", num_classes=classes, average="macro").item()
    print(f"{classes} classes: mean {by_class.mean():.2f}, torchmetrics {present:.2f}; "
          f"the first three {', '.join(f'{value:.2f}' for value in by_class[:3])}")
    assert (by_class[2:] == 1).all(), "absent classes have another value now"
    assert abs(by_class[:2].mean() - 0.25) < 1e-3 and abs(present - 0.25) < 1e-3
assert by_class.mean() > 0.98
PYTHON
