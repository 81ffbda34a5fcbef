#!/usr/bin/env bash
# Guess: `AccuracyCalculator` of pytorch-metric-learning compares integer labels as integers, so it does not matter by
#   which numbers classes are called.
# Behaviour: with pytorch-metric-learning 2.9.0 numbers above 16,777,216 run together. With embeddings that are noise
#   and 100 classes, precision at 1 is .012 if classes are called 0 to 99, and with a million added. With a hundred
#   million added it is .074, with 1.7 thousand million (seconds, numbers of people) .52, with numbers of twelve digits
#   1.000; R-precision, MAP and MAP at R are 1 then, too: perfect.
# Cause: `get_accuracy` (utils/accuracy_calculator.py) turns labels, together with embeddings, into 32-bit floats, whose
#   steps are 8 from 67 million and 128 from 1,074 million on; labels are compared for equality afterwards.
# Why it matters: retrieval sets number products, persons and vehicles by identifiers. Recall rises by as much as
#   neighbouring numbers are merged, without a warning.
# Versions: pytorch-metric-learning 2.9.0, torch 2.13.0, faiss-cpu 1.15.1, numpy 2.4.6, scikit-learn 1.9.1, scipy
#   1.17.1. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pytorch-metric-learning==2.9.0 torch==2.13.0 faiss-cpu==1.15.1 numpy==2.4.6 \
    scikit-learn==1.9.1 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

METRICS = ("precision_at_1", "r_precision", "mean_average_precision", "mean_average_precision_at_r")
embeddings = torch.randn(2000, 16, generator=torch.Generator().manual_seed(0))
classes = torch.arange(2000) % 100
calculator = AccuracyCalculator(include=METRICS, device=torch.device("cpu"))
neighbours = torch.cdist(embeddings, embeddings).fill_diagonal_(torch.inf).argmin(1)
answers = {}
for added in (0, 1_000_000, 100_000_000, 1_700_000_000, 100_000_000_000):
    labels = classes + added
    assert labels.dtype == torch.int64 and len(labels.unique()) == 100
    answers[added] = calculator.get_accuracy(embeddings, labels)
    by_hand = (labels[neighbours] == labels).float().mean().item()
    print(f"{added:,} added: { {name: round(answers[added][name], 3) for name in METRICS} }, precision at 1 by hand "
          f"{by_hand:.3f}")
    assert by_hand < 0.02
assert answers[0] == answers[1_000_000] and max(answers[0].values()) < 0.03
assert min(answers[100_000_000_000].values()) == 1, "the behaviour changed"
assert answers[1_700_000_000]["precision_at_1"] > 0.5, "the behaviour changed"
assert answers[100_000_000]["precision_at_1"] > 0.05, "the behaviour changed"
PYTHON
