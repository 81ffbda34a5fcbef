#!/usr/bin/env bash
# Guess: the thresholds of `JumpSAE` of Overcomplete learn by the gradient of the expected loss, estimated by a kernel around
#   the threshold; its `bandwidth` is how far around, a choice between bias and noise, and the kernel's shape matters little.
# Behaviour: with overcomplete 0.3.0 the gradient is the right one divided by the bandwidth. For one code with a normal
#   distribution, whose gradient is known, seven of eight kernels give 50 to 201 times as much at a bandwidth of .01, 100 for
#   most; at the default of .001 the default kernel gives about 2,000 times as much. The cosine kernel alone is right.
# Cause: the functions in overcomplete/sae/kernels.py are densities, divided by the bandwidth already, and
#   `JumpReLU.backward` (jump_sae.py) divides by it again, as the paper does with kernels of one width. "silverman" has an
#   area of 2, "gaussian" of 1/2.
# Why it matters: Adam hides the factor, but `train_sae` clips the norm over all parameters to 1, so the thresholds' part shrinks
#   the others' steps; and comparisons of kernels or bandwidths, and of JumpReLU with top-k, compare rates of learning.
# Versions: overcomplete 0.3.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 scikit-learn==1.9.1 scipy==1.17.1 einops==0.8.2 pillow==13.0.0 \
    tqdm==4.70.0
"$folder/venv/bin/pip" install -q --no-deps overcomplete==0.3.0 # its networks and pictures need more
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import math
import sys
import types

import torch

package = types.ModuleType("overcomplete")  # without networks and pictures, which its first file imports
package.__path__ = list(importlib.util.find_spec("overcomplete").submodule_search_locations)
sys.modules["overcomplete"] = package
from overcomplete.sae import JumpSAE
from overcomplete.sae.jump_sae import jump_relu

LEVEL = 0.5
torch.manual_seed(0)
codes = torch.randn(4_000_000, 1)
# codes below t are lost, so the expected square error is the integral of x^2 p(x) up to t, and its derivative t^2 p(t)
true = LEVEL**2 * math.exp(-(LEVEL**2) / 2) / math.sqrt(2 * math.pi)
step = 0.01
numeric = sum(
    sign * ((codes * (codes < LEVEL + sign * step)) ** 2).mean().item() / (2 * step) for sign in (1, -1)
)
print(f"gradient by the formula {true:.4f}, by differences of the loss {numeric:.4f}")
assert abs(numeric / true - 1) < 0.05

factors = {}
for bandwidth in (0.1, 0.01, 0.001):
    for name, kernel in JumpSAE._KERNELS.items():
        threshold = torch.tensor([LEVEL], requires_grad=True)
        outputs = jump_relu(codes, threshold, kernel, torch.tensor(bandwidth))
        ((outputs - codes) ** 2).mean().backward()
        factors[name, bandwidth] = threshold.grad.item() / true
for name in JumpSAE._KERNELS:
    print(f"{name:13} times {factors[name, 0.1]:6.1f} for a bandwidth of .1, {factors[name, 0.01]:6.1f} for .01, "
          f"{factors[name, 0.001]:7.1f} for .001")
for name in JumpSAE._KERNELS:
    if name == "cosine":
        assert abs(factors[name, 0.01] - 1) < 0.1
    else:
        assert 40 < factors[name, 0.01] < 220, "the behaviour changed"
        assert 7 < factors[name, 0.001] / factors[name, 0.01] < 13
assert JumpSAE(64, 8).kernel_fn.__name__ == "silverman_kernel" and factors["silverman", 0.001] > 1500
PYTHON
