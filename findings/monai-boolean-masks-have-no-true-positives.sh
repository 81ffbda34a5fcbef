#!/usr/bin/env bash
# Guess: MONAI's metrics of "binarized" masks take those that a comparison makes (`probabilities > 0.5`, booleans), as 0 and
#   1: the dice, the mean IoU, the Hausdorff distance, the sensitivity and the F score have the value of the same mask as floats.
# Behaviour: with MONAI 1.6.1 the first three do. `ConfusionMatrixMetric` gives booleans a sensitivity and a precision of 0
#   and the share of right background as accuracy, .45 for a mask that is .91 right; `FBetaScore` is 0. An exact mask is no
#   better (its precision is missing). The specificity is right, and so is all if one of the two masks is of floats.
# Cause: `get_confusion_matrix` and `get_f_beta_score` (monai/metrics) count true positives as `(y_pred + y) == 2`; the sum of
#   two boolean tensors is a boolean, True, which is not 2.
# Why it matters: masks of maps and of networks that are cut at a threshold are booleans, and so are masks from most readers.
#   Beside a dice of .91 a sensitivity of 0 is seen; a network that was chosen by accuracy alone is one that finds less.
# Versions: monai 1.6.1, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from monai.metrics import ConfusionMatrixMetric, DiceMetric, FBetaScore, MeanIoU

generator = torch.Generator().manual_seed(0)
truth = torch.rand(4, 1, 64, 64, generator=generator) > 0.5
probabilities = truth * 0.8 + 0.1
probabilities[:, :, :6] = 1 - probabilities[:, :, :6]  # 6 of 64 rows are wrong
masks = {"6 of 64 rows wrong": probabilities > 0.5, "exact": truth}
counted = ("sensitivity", "precision", "accuracy", "specificity")
metrics = {"dice": DiceMetric(), "mean IoU": MeanIoU(), "F score": FBetaScore()}
metrics |= {name: ConfusionMatrixMetric(metric_name=name) for name in counted}


def score(metric, mask, truth):
    metric.reset()
    metric(mask, truth)
    value = metric.aggregate()
    return torch.as_tensor(value[0] if isinstance(value, list) else value).item()


for case, mask in masks.items():
    hits, right = (mask & truth).float().sum((2, 3)), (mask == truth).float().mean((1, 2, 3))
    by_hand = {
        "sensitivity": hits.sum() / truth.sum(),
        "precision": hits.sum() / mask.sum(),
        "F score": 2 * hits.sum() / (truth.sum() + mask.sum()),
        "accuracy": right.mean(),
    }
    background = (~mask & ~truth).float().mean().item()
    print(f"{case}:")
    for name, metric in metrics.items():
        booleans, floats = score(metric, mask, truth), score(metric, mask.float(), truth.float())
        mixed = score(metric, mask, truth.float())
        print(f"  {name}: booleans {booleans:.2f}, floats {floats:.2f}")
        assert abs(mixed - floats) < 1e-6
        if name in by_hand:
            assert abs(floats - by_hand[name]) < 2e-3
            known = background if name == "accuracy" else 0
            assert abs(booleans - known) < 1e-3 or (name, case) == ("precision", "exact"), "the behaviour changed"
        else:
            assert abs(booleans - floats) < 1e-6
PYTHON
