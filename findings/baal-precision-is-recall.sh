#!/usr/bin/env bash
# Guess: `Precision(num_classes, average=False)` of BaaL is the precision of each class, "computes the precision for
#   each class over epochs": of the images that the network gives a class, the share that belongs to it. The
#   `ClassificationReport` beside it has the same number under the name "precision".
# Behaviour: with BaaL 2.1.0 it is the recall, to the last digit. A network that gives every image class 0 has a
#   precision of 1 for class 0, where a tenth of the images is of it; the report says .1.
# Cause: `Precision.update` (baal/utils/metrics.py) counts the images of a class in `target` as its `_positives`, and
#   divides the correct ones by them; predicted images are not counted.
# Why it matters: false alarms cost nothing. A table of precision and recall has one column twice, and a rare class that
#   is predicted too often looks excellent in both.
# Versions: baal 2.1.0, torch 2.13.0, torchmetrics 1.9.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q baal==2.1.0 torch==2.13.0 torchmetrics==1.9.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch
from baal.utils.metrics import ClassificationReport, Precision
from sklearn.metrics import precision_score, recall_score

generator = torch.Generator().manual_seed(0)
labels = torch.multinomial(torch.tensor([0.1, 0.3, 0.6]), 2000, replacement=True, generator=generator)
classes = torch.nn.functional.one_hot(labels, 3).float()
noise = torch.randn(2000, 3, generator=generator)
outputs = {"a network": classes + noise, "class 0 always": torch.tensor([[1.0, 0.0, 0.0]]).repeat(2000, 1)}
for name, logits in outputs.items():
    metric, report = Precision(3, average=False), ClassificationReport(3)
    metric.update(logits, labels)
    report.update(logits, labels)
    truth, predicted = labels.numpy(), logits.argmax(1).numpy()
    precision = precision_score(truth, predicted, average=None, zero_division=0)
    recall = recall_score(truth, predicted, average=None)
    print(f"{name}: Precision {metric.value.round(3)}, precision {precision.round(3)}, recall {recall.round(3)}")
    np.testing.assert_allclose(metric.value, recall, atol=1e-6, err_msg="the behaviour changed")
    np.testing.assert_allclose(report.value["precision"], precision, atol=1e-6)
    assert abs(metric.value - precision).max() > 0.2, "the behaviour changed"
PYTHON
