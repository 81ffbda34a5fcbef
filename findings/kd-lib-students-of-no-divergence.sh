#!/usr/bin/env bash
# Guess: the loss of ProbShift and LabelSmoothReg of KD_Lib with `ka_weight=1` is smallest where the student gives the
#   probabilities of the (corrected) teacher, as a Kullback-Leibler divergence is.
# Behaviour: with KD-Lib 0.0.32 a student that equals its teacher has not the smallest loss; a student that is nearly
#   uniform has. With a teacher that gives .91 to the right one of 10 classes, the optimum is .21, found by descent and
#   by hand. At the default temperature of 20 it is .102 instead of .122, and .1 is to know nothing.
# Cause: `calculate_kd_loss` (KD_Lib/KD/vision/KA) passes softmax outputs to `nn.KLDivLoss`, which asks for *logarithms*
#   the first distribution, and takes the second as the target. The teacher p comes first and the student q second, so
#   the loss is sum q (log q - p), whose minimum is q = exp(p) / sum exp(p).
# Why it matters: both methods exist to correct what the teacher knows; the student is drawn to equal classes instead,
#   whatever the teacher knows. The loss falls during training, and is negative, which a divergence never is.
# Versions: KD-Lib 0.0.32, torch 2.13.0, torchvision 0.28.0, tensorboard 2.21.0, contextlib2 21.6.0, pandas 3.1.1,
#   matplotlib 3.11.2, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 torchvision==0.28.0 tensorboard==2.21.0 contextlib2==21.6.0 \
    pandas==3.1.1 matplotlib==3.11.2 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps KD-Lib==0.0.32
MPLBACKEND=agg "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import nn

text = ModuleType("KD_Lib.KD.text")  # the part for texts needs packages of 2021
text.BERT2LSTM = text.get_essentials = None
sys.modules[text.__name__] = text
from KD_Lib.KD import LabelSmoothReg, ProbShift  # noqa: E402

teacher = torch.zeros(1, 10)
teacher[0, 3] = 4.5
classes = torch.tensor([3])
for method in (ProbShift, LabelSmoothReg):
    for temperature in (1.0, 20.0):
        library = method(nn.Linear(1, 1), nn.Linear(1, 1), None, None, None, None, temp=temperature, ka_weight=1.0)
        p = F.softmax(teacher / temperature, 1)
        hand = torch.exp(p) / torch.exp(p).sum()
        logits = teacher.clone().requires_grad_()  # the student begins as a copy of its teacher
        optimizer = torch.optim.Adam([logits], lr=0.05)
        copy = library.calculate_kd_loss(teacher, teacher, classes).item()
        for _ in range(3000):
            optimizer.zero_grad()
            loss = library.calculate_kd_loss(logits, teacher, classes)
            loss.backward()
            optimizer.step()
        q = F.softmax(logits / temperature, 1)
        divergence = F.kl_div(q.log(), p, reduction="sum").item()
        print(f"{method.__name__}, temperature {temperature:.0f}: teacher {p[0, 3]:.3f}, best student {q[0, 3]:.3f},")
        print(f"    by hand {hand[0, 3]:.3f}; loss {copy:.3f} of a copy, {loss:.3f} there; divergence {divergence:.4f}")
        assert loss < copy < 0 and torch.allclose(q, hand, atol=1e-3), "the behaviour changed"
PYTHON
