#!/usr/bin/env bash
# Guess: `binary_hinge_loss` of torchmetrics, given logits, is the mean of max(0, 1 - y * logit) with y = -1 or 1, the
#   formula of its docstring and scikit-learn's definition: 0 once every margin is above 1.
# Behaviour: with torchmetrics 1.9.0 a network that is right about every image by a margin of 5 has a loss of .507, of
#   .907 if 90 % of the images are of class 0, and of .107 if 10 % are. A network that calls all images class 0 has 1.005
#   on the first of these, where scikit-learn says .60 against 0. `one-vs-all` with five classes is .8 for a perfect
#   network.
# Cause: `binary_hinge_loss` and `_multiclass_hinge_loss_update` (torchmetrics/functional/classification/hinge.py)
#   apply sigmoid or softmax to logits outside [0, 1], as the docstring says. A probability is never below 0, so the
#   margin of an image of class 0 is never above 0, and its loss never below 1.
# Why it matters: hinge losses compare margins, also on attacked and degraded images. This one has the share of class 0
#   as its minimum, so it is the frequency of a class more than the quality of a network. No issue on it was found.
# Versions: torchmetrics 1.9.0, torch 2.13.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from sklearn.metrics import hinge_loss
from torchmetrics.classification import BinaryHingeLoss
from torchmetrics.functional.classification import binary_hinge_loss, multiclass_hinge_loss


def compare(name, logits, classes):
    """Return the loss of torchmetrics, and that by the formula, which is scikit-learn's."""
    signs = 2 * classes - 1
    right = (1 - signs * logits).clamp(min=0).mean().item()
    assert abs(right - hinge_loss(signs, logits)) < 1e-6
    found = binary_hinge_loss(logits, classes).item()
    assert BinaryHingeLoss()(logits, classes).item() == found, "the behaviour changed"
    print(f"{name}: {found:.3f}, by the formula {right:.3f}")
    return found, right


for share in (0.5, 0.9, 0.1):
    classes = (torch.arange(1000) >= 1000 * share).long()
    found, right = compare(f"perfect, {share:.0%} of class 0", 5.0 * (2 * classes - 1), classes)
    assert right == 0 and abs(found - share) < 0.01, "the behaviour changed"
classes = (torch.arange(1000) >= 900).long()
found, right = compare("all called class 0, 90% of class 0", torch.full((1000,), -5.0), classes)
assert abs(right - 0.6) < 1e-6 and found < 1.01, "the behaviour changed"
five = torch.arange(1000) % 5
logits = 20.0 * torch.nn.functional.one_hot(five, 5) - 10
each = multiclass_hinge_loss(logits, five, 5, multiclass_mode="one-vs-all").mean().item()
print(f"perfect, one of five against all: {each:.3f}")
assert abs(each - 0.8) < 1e-6, "the behaviour changed"
PYTHON
