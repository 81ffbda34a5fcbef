#!/usr/bin/env bash
# Guess: the metric `BrierScore()` of a fastai `Learner`, the "Brier score for single-label classification problems", is the
#   mean square of probability minus outcome; so it falls when the same decisions get honest probabilities.
# Behaviour: with fastai 2.8.12 it is the error rate, to the last digit, whatever the probabilities. Of three networks that
#   decide alike, one whose probabilities are all near .5, one that is calibrated and one that is five times as sure, each has
#   .169. By hand they have .245, .119 and .147.
# Cause: `BrierScore` (fastai/metrics.py) calls `skm_to_fastai` as the metrics of decisions do, which takes the `argmax` of
#   the logits first; scikit-learn then scores zeros and ones. `RocAucBinary` beside it asks for a softmax.
# Why it matters: who adds the score to watch calibration, or keeps the epoch in which it is lowest, selects by accuracy,
#   and finds temperature scaling, label smoothing and mixup without any effect on it.
# Versions: fastai 2.8.12, torch 2.13.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 scikit-learn==1.9.1 pandas==3.1.1 matplotlib==3.11.2 pillow==13.0.0 \
    pyyaml==6.0.4 requests==2.34.2 rich==15.0.0 beartype==0.23.1 cloudpickle==3.1.3 packaging==26.4
"$folder/venv/bin/pip" install -q --no-deps fastai==2.8.12 fastcore==2.2.41 fasttransform==0.0.5 fastprogress==1.0.3 \
    fastdownload==0.0.8 plum-dispatch==2.9.0 # without the packages for words
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.learner import Learner
from fastai.losses import CrossEntropyLossFlat
from fastai.metrics import BrierScore, error_rate
from sklearn.metrics import brier_score_loss

torch.manual_seed(0)
logits = 2 * torch.randn(2000, 2)
outcomes = (torch.rand(2000) < logits.softmax(1)[:, 1]).long()
loader = DataLoader(torch.utils.data.TensorDataset(logits, outcomes), bs=100)
scores = []
for name, factor in (("near .5", 0.01), ("calibrated", 1), ("too sure", 5)):
    network = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.eye_(network.weight).data.mul_(factor)
    learner = Learner(
        DataLoaders(loader, loader), network, loss_func=CrossEntropyLossFlat(), metrics=[BrierScore(), error_rate]
    )
    _, brier, errors = learner.validate()
    true = brier_score_loss(outcomes.numpy(), (factor * logits).softmax(1)[:, 1].numpy())
    print(f"{name:10}: BrierScore {brier:.3f}, error rate {errors:.3f}; by scikit-learn {true:.3f}")
    scores.append((brier, errors, true))
briers, errors, true = (torch.tensor(values) for values in zip(*scores))
assert true.argmin() == 1 and true.max() > 2 * true.min()
assert (briers - errors).abs().max() < 1e-6 and briers.max() - briers.min() < 1e-6, "the behaviour changed"
PYTHON
