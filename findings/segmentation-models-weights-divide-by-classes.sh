#!/usr/bin/env bash
# Guess: whatever the `reduction` and the `class_weights`, the IoU of a perfect segmentation is 1, and equal weights are
#   no weights: `iou_score(…, reduction="weighted-imagewise", class_weights=[1, 1, 1, 1])` is `"macro-imagewise"`.
# Behaviour: with segmentation-models-pytorch 0.6.0 it is a fourth of it: a perfect segmentation of 4 classes has .25,
#   one of 20 classes .05. So it is for "macro" and "macro-imagewise" if weights are given. "weighted" is right.
# Cause: `_compute_metric` (segmentation_models_pytorch/metrics/functional.py) divides the weights by their sum and then
#   takes the mean over classes of weight times score, where the sum is meant; "weighted" was mended in
#   https://github.com/qubvel-org/segmentation_models.pytorch/pull/659, the others were not.
# Why it matters: the weighted scores of F1, accuracy, recall and all others of the module are too small by the number
#   of classes, so two data sets, or one with and without the background as a class, cannot be compared. A score of .24
#   looks like a bad network, and no warning is given.
# Versions: segmentation-models-pytorch 0.6.0, timm 1.0.31, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q segmentation-models-pytorch==0.6.0 timm==1.0.31 torch==2.13.0 torchvision==0.28.0 \
  numpy==2.4.6
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

from segmentation_models_pytorch.metrics import get_stats, iou_score

torch.manual_seed(0)


def score(classes, reduction, predicted=None, weights=None):
    """Return the IoU of `predicted`, or of a perfect segmentation, of 8 images with `classes` classes."""
    target = torch.arange(64 * 64 * 8).view(8, 64, 64) % classes
    counts = get_stats(target if predicted is None else predicted, target, mode="multiclass", num_classes=classes)
    return iou_score(*counts, reduction=reduction, class_weights=weights).item()


for classes in (4, 20):
    equal = [1.0] * classes
    assert abs(score(classes, "weighted", weights=equal) - 1) < 1e-5
    assert score(classes, "macro") == score(classes, "macro-imagewise") == 1
    for reduction in ("macro", "macro-imagewise", "weighted-imagewise"):
        found = score(classes, reduction, weights=equal)
        print(f"{classes} classes, equal weights, {reduction}: a perfect segmentation has {found:.2f}")
        assert abs(found - 1 / classes) < 1e-5, "the behaviour changed"
predicted = torch.randint(4, (8, 64, 64))
share = score(4, "weighted-imagewise", predicted, [1.0] * 4) / score(4, "macro-imagewise", predicted)
assert abs(share - 0.25) < 1e-5, "the behaviour changed"
PYTHON
