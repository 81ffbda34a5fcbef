#!/usr/bin/env bash
# Guess: `PolyScheduler` of pytorch-optimizer is the "poly" schedule of DeepLab, torch and timm: behind the warmup the
#   learning rate falls from `max_lr` to `min_lr` within `t_max` steps, as its `CosineScheduler` and `LinearScheduler` do.
# Behaviour: with pytorch-optimizer 4.1.0 it rises from `max_lr` on, without an end. With max_lr = .1 and 100 steps it is
#   .94 at the last step for `poly_order=0.5`, the default, 5.7 for .9, that of DeepLab, and 792 for 2.
# Cause: `PolyScheduler._step` (pytorch_optimizer/lr_scheduler/linear_warmup.py) raises the number of steps since the
#   warmup to the power, where one minus its share of all steps is meant; `t_max` is read by nothing. The formula stands in
#   the docstring, beside `max_lr` as the rate at the end of the warmup and `t_max` as the number of all steps.
# Why it matters: by the power of .5 the rate stays below ten times the intended one, at which many networks still learn,
#   and end worse; the schedule is chosen by its name (`load_lr_scheduler("poly")`), and methods are compared under it.
# Versions: pytorch-optimizer 4.1.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pytorch-optimizer==4.1.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from pytorch_optimizer import load_lr_scheduler
from torch.optim.lr_scheduler import PolynomialLR

WARMUP, STEPS, HIGHEST = 10, 100, 0.1


def make_optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=HIGHEST)


def schedule(name, **settings):
    """Return the learning rates of all steps."""
    optimizer = make_optimizer()
    scheduler = load_lr_scheduler(name)(optimizer, t_max=STEPS, max_lr=HIGHEST, warmup_steps=WARMUP, **settings)
    rates = []
    for _ in range(STEPS):
        optimizer.step()
        scheduler.step()
        rates.append(float(optimizer.param_groups[0]["lr"]))
    return rates


def schedule_by_torch(power):
    optimizer = make_optimizer()
    scheduler = PolynomialLR(optimizer, STEPS - WARMUP, power)
    for _ in range(STEPS - WARMUP - 1):
        optimizer.step()
        scheduler.step()
    return optimizer.param_groups[0]["lr"]


for power in (0.5, 0.9, 2.0):
    rates = schedule("poly", poly_order=power)
    by_torch = schedule_by_torch(power)
    print(f"power {power}: end of warmup {rates[WARMUP]:.2f}, last step {rates[-1]:.2f}, torch {by_torch:.4f}")
    assert abs(rates[WARMUP] - HIGHEST) < 1e-6 and by_torch < HIGHEST / 2
    assert abs(rates[-1] - HIGHEST * (STEPS - WARMUP - 1) ** power) < 0.1 * rates[-1], "the behaviour changed"
for name in ("cosine", "linear"):
    last = schedule(name)[-1]
    print(f"{name}: last step {last:.4f}")
    assert last < 0.01
PYTHON
