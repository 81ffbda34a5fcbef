#!/usr/bin/env bash
# Guess: `multilabel_ranking_loss` of torchmetrics gives a network with the same score for every label the loss of
#   scikit-learn, 1 (a label must be scored *above* a wrong one), or one half.
# Behaviour: with torchmetrics 1.9.0 and torch 2.13.0 its loss depends on the order of the columns: 0, the best, if the
#   right labels stand last, and 1 if they stand first. Scores of which most are equal, as after ReLU, rounding or a
#   softmax in float16, are between: with a fifth of the scores above 0, .03 if the right labels stand
#   last and .46 if they stand first, for .46 of scikit-learn.
# Cause: `_multilabel_ranking_loss_update` (torchmetrics/functional/classification/ranking.py) ranks by two `argsort`s,
#   which rank equal scores by position. The coverage error and the average precision beside it treat equal scores right.
# Why it matters: columns are sorted by frequency or name, so the loss of a weak network says how the labels are sorted.
#   MultilabelRankingLoss calls the same function; no issue on equal scores was found.
# Versions: torchmetrics 1.9.0, torch 2.13.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from sklearn.metrics import label_ranking_loss
from torchmetrics.classification import MultilabelRankingLoss
from torchmetrics.functional.classification import multilabel_ranking_loss


def compare(name, scores, labels):
    """Return the loss of torchmetrics and of scikit-learn."""
    found, right = multilabel_ranking_loss(scores, labels, labels.shape[1]).item(), label_ranking_loss(labels, scores)
    assert MultilabelRankingLoss(labels.shape[1])(scores, labels).item() == found, "the behaviour changed"
    print(f"{name}: {found:.3f}, scikit-learn {right:.3f}")
    return found, right


generator = torch.Generator().manual_seed(0)
last = torch.zeros(200, 10, dtype=torch.long)
last[:, 7:] = 1
equal = torch.full((200, 10), 0.5)
assert compare("equal scores, right labels last", equal, last) == (0, 1), "the behaviour changed"
assert compare("equal scores, right labels first", equal, last.flip(1)) == (1, 1), "the behaviour changed"

distinct = torch.rand(200, 10, generator=generator)
found, right = compare("distinct scores", distinct, last)
assert abs(found - right) < 1e-6

signal = distinct + 0.5 * last
sparse = (signal - signal.quantile(0.8)).clamp(min=0)
found, right = compare("a fifth of the scores above 0, right labels last", sparse, last)
first, _ = compare("the same columns in reverse order", sparse.flip(1), last.flip(1))
assert found < 0.2 * right and first > 5 * found, "the behaviour changed"
PYTHON
