#!/usr/bin/env bash
# Guess: `FGSM` and `PGD` of captum move each pixel by the sign of its gradient, so a loss that is a thousand times as
#   small gives the same attacked images: a network whose logits are all multiplied by a constant is exactly as robust.
# Behaviour: with captum 0.9.0 a pixel whose gradient is at most 1e-6 stays as it is. A network with an accuracy of 0
#   under PGD keeps 0 if its logits are doubled, and has 1 if they are multiplied by 4, where not one pixel of 2,000
#   images is changed. Signs of the same float32 gradients by hand leave an accuracy of 0 each time.
# Cause: `FGSM._perturb` (captum/robust/_core/fgsm.py) applies the sign only where the absolute gradient is above
#   `zero_thresh`, which is 1e-6 for every loss and network. The formula in the docstring has no
#   threshold; `FGSM.__init__` names the attribute, and nothing of `PGD` does.
# Why it matters: networks that were trained for long are this sure of their training images, and the more sure a
#   network, the more robust it looks. `MinParamPerturbation` and `AttackComparator` call the same attacks.
# Versions: captum 0.9.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q captum==0.9.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from captum.robust import FGSM, PGD
from torch import nn
from torch.nn import functional as F

RADIUS, STEPS = 0.05, 10
generator = torch.Generator().manual_seed(0)
classes = torch.randint(10, (2000,), generator=generator)
prototypes = torch.rand(10, 784, generator=generator)
images = 0.1 * prototypes[classes] + 0.45 + 0.05 * torch.randn(2000, 784, generator=generator)

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(network.parameters(), 1e-3)
for _ in range(200):
    optimizer.zero_grad()
    F.cross_entropy(network(images), classes).backward()
    optimizer.step()


def attack_by_hand():
    """Return the images after projected steps along the signs of the gradients."""
    attacked = images
    for _ in range(STEPS):
        attacked = attacked.detach().requires_grad_()
        loss = F.cross_entropy(network(attacked), classes, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, attacked)
        moved = attacked.detach() + RADIUS / 4 * gradient.sign()
        attacked = images + (moved - images).clamp(-RADIUS, RADIUS)
    return attacked


def compute_accuracy(inputs):
    """Return the share of images with the right class."""
    return (network(inputs).argmax(1) == classes).float().mean().item()


for scale in (1, 2, 4):
    model = lambda inputs: scale * network(inputs)  # noqa: E731
    loss = nn.CrossEntropyLoss(reduction="none")
    attacked = PGD(model, loss).perturb(images, RADIUS, RADIUS / 4, STEPS, classes)
    once = FGSM(model, loss).perturb(images, RADIUS, classes)
    found, right = compute_accuracy(attacked), compute_accuracy(attack_by_hand())
    changed = (once != images).float().mean().item()
    print(f"logits x {scale}: accuracy under PGD {found:.2f}, by hand {right:.2f}; FGSM changes {changed:.0%} of pixels")
    assert compute_accuracy(images) == 1 and right == 0, "the behaviour changed"
    assert (found, changed) == (1, 0) if scale == 4 else found == 0 and changed > 0.9, "the behaviour changed"
PYTHON
