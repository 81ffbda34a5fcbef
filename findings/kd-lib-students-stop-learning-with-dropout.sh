#!/usr/bin/env bash
# Guess: `train_student` of KD_Lib trains the student in training mode in each epoch: dropout drops, and batch
#   normalisation takes the statistics of the batch, as in any training loop.
# Behaviour: with KD-Lib 0.0.32 this holds for the first epoch alone. From the second on the student learns in
#   evaluation mode: of 40 epochs of 4 batches, dropout is on for 4 of 160 batches, and a normalisation has
#   counted 4. A student with dropout of .9 learns 100 % of labels that were drawn at random; with the same loss in a
#   loop that stays in training mode it learns 45 to 57 %.
# Cause: `_train_student` (KD_Lib/KD/common/base_class.py) calls `train()` once before its epochs, and
#   `_evaluate_model(student)` at the end of each calls `eval()`. The teacher is copied before it is evaluated.
# Why it matters: VanillaKD, Attention, ProbShift and LabelSmoothReg share this loop. Students lose their
#   regularisation and keep the statistics of their first epoch; teachers do not, so "the student overfits" is no result
#   of the distillation.
# Versions: KD-Lib 0.0.32, torch 2.13.0, torchvision 0.28.0, tensorboard 2.21.0, contextlib2 21.6.0, pandas 3.1.1,
#   matplotlib 3.11.2, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 torchvision==0.28.0 tensorboard==2.21.0 contextlib2==21.6.0 \
    pandas==3.1.1 matplotlib==3.11.2 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps KD-Lib==0.0.32
cd "$folder"
MPLBACKEND=agg "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import copy
import io
import sys
from contextlib import redirect_stdout
from types import ModuleType

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

text = ModuleType("KD_Lib.KD.text")  # the part for texts needs packages of 2021
text.BERT2LSTM = text.get_essentials = None
sys.modules[text.__name__] = text
from KD_Lib.KD import VanillaKD  # noqa: E402

for seed in range(3):
    torch.manual_seed(seed)
    vectors, classes = torch.randn(80, 32), torch.randint(5, (80,))
    loader = DataLoader(TensorDataset(vectors, classes), batch_size=20)
    teacher = nn.Linear(32, 5)
    student = nn.Sequential(nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.9), nn.Linear(16, 5))
    other, modes = copy.deepcopy(student), []
    hook = lambda layer, *_: modes.append(layer.training) if torch.is_grad_enabled() else None  # noqa: E731
    student[3].register_forward_hook(hook)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.2)
    library = VanillaKD(teacher, student, loader, loader, None, optimizer, distil_weight=0.1)
    with redirect_stdout(io.StringIO()):
        library.train_student(epochs=40, plot_losses=False, save_model=False)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.2)
    for _ in range(40):
        for batch, labels in loader:
            optimizer.zero_grad()
            library.calculate_kd_loss(other(batch), teacher(batch).detach(), labels).backward()
            optimizer.step()
    learned = [100 * (one.eval()(vectors).argmax(1) == classes).float().mean().item() for one in (student, other)]
    modes = modes[:160]  # the last one is that of this measurement
    counted = int(student[1].num_batches_tracked)
    print(f"dropout in {sum(modes)} of {len(modes)} batches, {counted} batches counted;", end=" ")
    print(f"learned {learned[0]:.0f} %, in training mode {learned[1]:.0f} %")
    assert modes == [True] * 4 + [False] * 156, "the behaviour changed"
    assert counted == 4 and other[1].num_batches_tracked == 160, "the behaviour changed"
    assert learned[0] > 95 and learned[1] < 70, "the behaviour changed"
PYTHON
