#!/usr/bin/env bash
# Guess: L2FMNAttack of foolbox, the fast minimum-norm attack, finds about the smallest change that fools a network, as
#   its variants for other norms and DDN do.
# Behaviour: with foolbox 3.3.4 its changes are 15 times too large on average, up to 105 times, for a linear network,
#   where the smallest change is known: the margin over the norm of the weights. All have norm 1, the first step, and
#   ten times as many steps change nothing. DDN is .2 % above the truth, LInfFMNAttack .002 %, L1FMNAttack 1 %.
# Cause: `L2FMNAttack.project` (foolbox/attacks/fast_minimum_norm.py) scales by `norms / norms`, the norm of the image
#   over itself, which is 1; the radius `epsilon`, which the attack adapts, is not read. So no step comes back.
# Why it matters: the mean distance is a measure of robustness: by this attack a network looks 15 times as robust, and a
#   comparison of norms or of attacks is off by as much. `max_stepsize` decides the result.
# Versions: foolbox 3.3.4, eagerpy 0.30.0, torch 2.13.0, numpy 2.4.6, scipy 1.17.1, gitpython 3.2.1. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q foolbox==3.3.4 eagerpy==0.30.0 torch==2.13.0 numpy==2.4.6 scipy==1.17.1 \
    gitpython==3.2.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import foolbox
import torch
from foolbox.attacks import DDNAttack
from foolbox.attacks.fast_minimum_norm import L1FMNAttack, L2FMNAttack, LInfFMNAttack

torch.manual_seed(0)
network = torch.nn.Linear(64, 2).eval()
images = torch.rand(20, 64) * 0.2 + 0.4  # far from black and white, so the bounds do not matter
logits = network(images).detach()
weights = (network.weight[1] - network.weight[0]).detach()
margins = (logits[:, 1] - logits[:, 0]).abs()
duals = {1: weights.abs().max(), 2: weights.norm(), float("inf"): weights.abs().sum()}
model = foolbox.PyTorchModel(network, bounds=(0, 1))
for name, attack, order, low, high in (
    ("L2FMNAttack", L2FMNAttack(), 2, 10, 20),
    ("L2FMNAttack of 1000 steps", L2FMNAttack(steps=1000), 2, 10, 20),
    ("L2FMNAttack of steps of .1", L2FMNAttack(max_stepsize=0.1), 2, 1.5, 3),
    ("DDNAttack", DDNAttack(), 2, 1, 1.01),
    ("LInfFMNAttack", LInfFMNAttack(), float("inf"), 1, 1.01),
    ("L1FMNAttack", L1FMNAttack(), 1, 1, 1.03),
):
    found, _, fooled = attack(model, images, logits.argmax(1), epsilons=None)
    ratios = (found - images).norm(p=order, dim=1) * duals[order] / margins
    print(f"{name}: fools {int(fooled.sum())} of 20; change over the smallest change: mean {ratios.mean():.4f}, "
          f"at most {ratios.max():.4f}")
    assert fooled.all() and low <= ratios.mean() < high, "the behaviour changed"
PYTHON
