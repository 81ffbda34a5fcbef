#!/usr/bin/env bash
# Guess: SWATS of torch-optimizer begins as Adam and goes on as SGD with momentum, at the learning rate that it
#   estimated from Adam's steps, so its steps stay about as long: with a constant gradient, exactly as long after some
#   steps.
# Behaviour: with torch-optimizer 0.3.0 they are a ninth as long for good. With a constant gradient of 1 Adam's steps
#   are .01, the estimated learning rate is .01, and the steps of SGD settle at .0011; its momentum of .9 acts as .09.
# Cause: `grad = buf; grad.mul_(1 - beta1)` in `SWATS.step` (torch_optimizer/swats.py): both names are one tensor, so
#   the factor for the step shrinks the stored momentum too, by .1 at each step.
# Why it matters: the switch is made to generalise better than Adam; here training nearly stops at it, and in a
#   comparison of optimizers SWATS seems to converge early and to a worse loss.
# Versions: torch-optimizer 0.3.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch-optimizer==0.3.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torch_optimizer import SWATS

weight = torch.nn.Parameter(torch.zeros(1))
optimizer = SWATS([weight], lr=0.01, betas=(0.9, 0.999), eps=1e-8)
steps, phases, places = [], [], [0.0]
for _ in range(100):
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
    places.append(weight.item())
    steps.append(places[-2] - places[-1])
    phases.append(optimizer.param_groups[0]["phase"])
rate, switch = optimizer.param_groups[0]["lr"], phases.index("SGD") + 1
buffer, paper = 0.0, []
for _ in range(100 - switch):
    buffer = 0.9 * buffer + 1
    paper.append(0.1 * rate * buffer)
print(f"steps of Adam {steps[0]:.4f}, estimated rate {rate:.4f}, switch behind step {switch}")
print(f"last step of SGD {steps[-1]:.5f}, by the paper {paper[-1]:.5f}: a {paper[-1] / steps[-1]:.1f}th")
print(f"way since the switch {sum(steps[switch:]):.3f}, by the paper {sum(paper):.3f}")
assert abs(steps[0] - 0.01) < 1e-6 and abs(rate - 0.01) < 1e-6, "the behaviour changed"
assert abs(steps[-1] - 0.1 / 0.91 * rate) < 1e-6 and abs(paper[-1] - rate) < 1e-5, "the behaviour changed"
PYTHON
