#!/usr/bin/env bash
# Guess: within `torch.autocast` each call of a network rounds its weights anew, or notices that they changed.
# Behaviour: with torch 2.13.0 the rounded weights of the first call serve until the outermost context is left. After all
#   weights are drawn anew, logits are the same to the last bit. A whole loop within the context, `backward` and
#   `step` included, leaves the loss where it is for 100 steps of Adam. So does a context for each step if it lies in an
#   outer one, even with `enabled=False`. A context for each step alone, or `cache_enabled=False`, learns.
# Cause: `cached_cast` (aten/src/ATen/autocast_mode.cpp) looks a weight up by its tensor and asks for no version.
# Why it matters: a test that randomises weights between two maps finds equal maps: every estimator "ignores the
#   network". Averages of weights (EMA, SWA) that are swapped in score as the network before them.
# Versions: torch 2.13.0 (CPU, bfloat16). Met elsewhere: https://github.com/X-GenGroup/Flow-Factory/pull/186.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from contextlib import nullcontext

import torch
from torch import nn

generator = torch.Generator().manual_seed(0)
images = torch.randn(256, 20, generator=generator)
classes = (images[:, :5].sum(1) > 0).long()


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2))


def cast(**settings):
    return torch.autocast("cpu", torch.bfloat16, **settings)


def train(outside, inside):
    network = build()
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    with outside:
        for _ in range(100):
            optimiser.zero_grad()
            with inside():
                logits = network(images)
            loss = nn.functional.cross_entropy(logits.float(), classes)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    return losses[0], losses[-1], (network(images).argmax(1) == classes).float().mean().item()


network = build()
with cast():
    before = network(images)
    for parameter in network.parameters():
        nn.init.normal_(parameter)
    after = network(images)
with cast():
    later = network(images)
within, behind = ((each - before).abs().max().item() for each in (after, later))
print(f"logits change by {within:.1f} within the context, by {behind:.1f} in the next one")
assert torch.equal(before, after) and not torch.equal(before, later), "the behaviour changed"
for name, settings, learns in (
    ("one context for the loop", (cast(), nullcontext), False),
    ("a context for each step", (nullcontext(), cast), True),
    ("a context for each step in a disabled one", (cast(enabled=False), cast), False),
    ("one context without the cache", (cast(cache_enabled=False), nullcontext), True),
):
    first, last, accuracy = train(*settings)
    print(f"{name}: loss {first:.3f} at first, {last:.3f} at last, accuracy {accuracy:.0%}")
    assert (first == last) != learns and (accuracy > 0.95) == learns, "the behaviour changed"
PYTHON
