#!/usr/bin/env bash
# Guess: the area under the ROC curve reads the order of scores alone, so a constant or a factor changes nothing.
# Behaviour: with torchmetrics 1.9.0 it does. Scores with an AUROC of .77 have .50 after 20 is added, and .71 after a factor
#   of 100; average precision falls from .75 to the share of positives. Given in batches the result depends on which
#   scores share a batch: .77 becomes .75 one by one. scikit-learn gives .77 each time.
# Cause: one score outside [0, 1] makes all of its batch pass through `sigmoid` (`normalize_logits_if_needed`,
#   torchmetrics/utilities/compute.py), which is exactly 1 in float32 from 17 on, and that is a tie.
# Why it matters: maps are scored against masks by their AUROC, and contributions or sums of pixels can exceed 17.
#   The estimator with larger values loses. Scores in [0, 1] or ranks are right.
# Versions: torchmetrics 1.9.0, torch 2.13.0, scikit-learn 1.9.1, numpy 2.4.6. Known:
#   https://github.com/Lightning-AI/torchmetrics/issues/2819 and 2195.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from sklearn.metrics import roc_auc_score
from torchmetrics.classification import BinaryAUROC
from torchmetrics.functional.classification import binary_average_precision

torch.manual_seed(0)
inside = (torch.rand(1000) < 0.5).int()
scores = torch.randn(1000) + inside
for name, values, batch, right in (
    ("plain", scores, 1000, True),
    ("+ 20", scores + 20, 1000, False),
    ("x 100", scores * 100, 1000, False),
    ("one by one", scores, 1, False),
    ("ranks", scores.argsort().argsort() / 1000, 1, True),
):
    metric = BinaryAUROC()
    for part, marks in zip(values.split(batch), inside.split(batch)):
        metric.update(part, marks)
    found, expected = metric.compute().item(), roc_auc_score(inside, values)
    precision = binary_average_precision(values, inside).item()
    print(f"{name}: AUROC {found:.2f}, scikit-learn {expected:.2f}; average precision {precision:.2f}")
    assert (abs(found - expected) < 1e-4) == right and (right or expected - found > 0.01), "the behaviour changed"
PYTHON
