#!/usr/bin/env bash
# Guess: `EMPSSLLoss` of lightly is the loss of EMP-SSL: views of an image are drawn together, and the total coding rate keeps
#   the images apart, so a network that gives all images one embedding has a high loss.
# Behaviour: with lightly 1.6.0 it has the lowest one. 64 equal embeddings have a loss of -197.8, random ones on the sphere
#   -186.4. A network trained by it gives 256 images one embedding within 300 steps (mean cosine 1.00), with the
#   coefficient of 200, the default, and with 1. With the rate's sign turned the mean cosine is .07 and .04.
# Cause: `tcr_loss` (lightly/loss/emp_ssl_loss.py) returns half the log determinant, which `forward` adds. The paper maximises
#   it; the authors' code, which the file names as its source, returns it with a minus.
# Why it matters: the loss falls as it should, to near -200 (200 times the cosine), so the curve looks like success; what is
#   compared afterwards is a linear layer on a constant.
# Versions: lightly 1.6.0, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6. Since https://github.com/lightly-ai/lightly/pull/1467.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q lightly==1.6.0 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from unittest.mock import patch

import torch
from torch import nn
from torch.nn.functional import normalize

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]
from lightly.loss import EMPSSLLoss, emp_ssl_loss

original = emp_ssl_loss.tcr_loss


def train(coefficient, sign):
    """Return the mean cosine of the embeddings of all pairs of 256 images, after 300 steps with four noisy views."""
    torch.manual_seed(0)
    images = torch.randn(256, 32)
    network = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    criterion = EMPSSLLoss(inv_coef=coefficient)
    with patch.object(emp_ssl_loss, "tcr_loss", lambda views, eps: sign * original(views, eps)):
        for _ in range(300):
            views = [normalize(network(images + 0.1 * torch.randn_like(images)), dim=1) for _ in range(4)]
            optimizer.zero_grad()
            criterion(views).backward()
            optimizer.step()
    embeddings = normalize(network(images), dim=1)
    return (embeddings @ embeddings.T).mean().item()


torch.manual_seed(0)
apart = normalize(torch.randn(64, 16), dim=1)
equal = apart[:1].expand(64, 16)
losses = [EMPSSLLoss()([embeddings] * 4).item() for embeddings in (apart, equal)]
by_hand = torch.logdet(torch.eye(16) + 16 / (64 * 0.2) * apart.T @ apart).item() / 2  # the rate, which is to be large
print(f"random embeddings {losses[0]:.1f}, equal ones {losses[1]:.1f}; rate of the random ones by hand {by_hand:.2f}")
assert abs(losses[0] - (by_hand - 200)) < 1e-2 and losses[1] < losses[0] - 5, "the behaviour changed"
for coefficient in (200.0, 1.0):
    cosine, turned = train(coefficient, 1), train(coefficient, -1)
    print(f"coefficient {coefficient:.0f}: mean cosine {cosine:.2f}, with the other sign {turned:.2f}")
    assert abs(turned) < 0.1 and cosine > 0.99, "the behaviour changed"
PYTHON
