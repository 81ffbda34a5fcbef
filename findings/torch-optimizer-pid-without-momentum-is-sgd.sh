#!/usr/bin/env bash
# Guess: `PID(parameters, lr)` of torch-optimizer is a PID controller: to the gradient it adds 5 times its running sum
#   and 10 times its change (`integral=5.0, derivative=10.0` are the defaults); without momentum the running sum is the
#   gradient.
# Behaviour: with torch-optimizer 0.3.0 it is plain SGD, to the last bit, and `integral` and `derivative` change
#   nothing, because the default of `momentum` is 0. The example of its README names all six arguments, `momentum=0`
#   among them. With momentum, the second step takes the whole gradient for its change: the first gradient is not
#   stored.
# Cause: both terms stand under `if momentum != 0` in `PID.step` (torch_optimizer/pid.py), and `g_buf = d_p` there names
#   the gradient and leaves the stored `grad_buffer` at 0.
# Why it matters: a comparison of optimizers with the example's arguments has SGD twice, and a search over the two
#   coefficients finds that they do not matter.
# Versions: torch-optimizer 0.3.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch-optimizer==0.3.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torch_optimizer import PID


def train(optimizer, steps=20, **settings):
    """Return the weights after each step on a fixed regression."""
    torch.manual_seed(0)
    network, images, targets = torch.nn.Linear(5, 1), torch.randn(50, 5), torch.randn(50, 1)
    chosen, weights = optimizer(network.parameters(), lr=1e-3, **settings), []
    for _ in range(steps):
        chosen.zero_grad()
        ((network(images) - targets) ** 2).mean().backward()
        chosen.step()
        weights.append(torch.cat([weight.detach().flatten() for weight in network.parameters()]))
    return torch.stack(weights)


plain = train(torch.optim.SGD)
for settings in ({}, {"momentum": 0, "dampening": 0, "integral": 500.0, "derivative": 1000.0}):
    found = train(PID, **settings)
    print(f"PID with {settings or 'its defaults'}: largest distance from SGD {(found - plain).abs().max():.1e}")
    assert torch.equal(found, plain), "the behaviour changed"
moved = train(PID, momentum=0.9)
print(f"PID with a momentum of 0.9: largest distance from SGD {(moved - plain).abs().max():.1e}")
assert (moved - plain).abs().max() > 0.01, "the behaviour changed"

weight = torch.nn.Parameter(torch.zeros(1))
optimizer = PID([weight], lr=1.0, momentum=0.9, integral=0.0, derivative=10.0)
places = [0.0]
for _ in range(3):
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
    places.append(weight.item())
steps = [round(before - after, 4) for before, after in zip(places, places[1:])]
print(f"steps for a constant gradient of 1, which has no change: {steps}")
assert steps[0] == 1 and steps[1] == 2, "the behaviour changed"
PYTHON
