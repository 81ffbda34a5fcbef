#!/usr/bin/env bash
# Guess: `SPKDLoss` of torchdistill is similarity-preserving distillation: rows of the matrix of similarities between the
#   images of a batch have an L2 norm of 1, so the paper's weight of 3,000 means what it meant there.
# Behaviour: with torchdistill 1.1.5 rows have an L1 norm of 1. For features behind a ReLU the loss is a 27th of the
#   paper's in a batch of 32, a 58th in one of 64 and a 242nd in one of 256, so the weight that fits depends on the batch.
# Cause: `normalize(similarities, 1)` (`matmul_and_normalize`, torchdistill/losses/mid_level.py): the second argument of
#   torch's `normalize` is the norm, p, and not the axis, which is 1 anyway. The other losses there name both.
# Why it matters: with the paper's weight the term is next to nothing beside the cross-entropy, and SPKD comes out as a
#   method that does not help. The question in https://github.com/yoshitomo-matsubara/torchdistill/issues/221 was on the
#   sum after the norm.
# Versions: torchdistill 1.1.5, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchdistill==1.1.5 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torchdistill.losses.mid_level import SPKDLoss

criterion = SPKDLoss("layer", "layer", "batchmean")


def compute_by_hand(teacher, student, norm):
    """Return the mean squared difference of the similarities, whose rows are divided by their norm."""
    matrices = [features @ features.T for features in (teacher, student)]
    one, other = (matrix / matrix.abs().pow(norm).sum(1, keepdim=True) ** (1 / norm) for matrix in matrices)
    return ((one - other) ** 2).mean().item()


ratios = []
for size in (32, 64, 256):
    torch.manual_seed(0)
    teacher, student = torch.randn(size, 512).relu(), torch.randn(size, 128).relu()
    loss = criterion({"layer": {"output": student}}, {"layer": {"output": teacher}}).item()
    paper, by_ones = (compute_by_hand(teacher, student, norm) for norm in (2, 1))
    ratios.append(paper / loss)
    print(f"batch of {size}: {loss:.3g}, by the L1 norm {by_ones:.3g}, by the L2 norm {paper:.3g}, {paper / loss:.0f} times")
    assert abs(loss / by_ones - 1) < 1e-3, "the behaviour changed"
assert ratios[0] > 20 and ratios[2] > 6 * ratios[0], "the behaviour changed"
PYTHON
