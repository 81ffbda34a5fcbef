#!/usr/bin/env bash
# Guess: linear CKA of torchxai lies between 0 and 1, is 1 of a layer with itself, and does not change if a layer is
#   multiplied by a number; that is what the name promises and what its heat map draws, from 0 to 1.
# Behaviour: with TorchXAI 0.0.4 the CKA of a layer with itself is one divided by its HSIC: 0.73 here, and 7275 after the
#   same layer is divided by 10. The layer is more like a copy with every second image negated (0.74; right: 0.12) than
#   like itself.
# Cause: two faults in cka/cka.py. `CKA` divides by HSIC(X, X) HSIC(Y, Y) and not by its root, as its own docstring has
#   it. `HSIC` multiplies the centred kernels entry by entry and then keeps the diagonal, which is the sum of products
#   of diagonals and not the trace of the product: the length of each image's activation counts, not which images are
#   alike.
# Why it matters: CKA says which layers or networks represent images alike. Here the number tells how large activations
#   are: of two layers the one with the smaller values is "more similar" to all others.
# Versions: TorchXAI 0.0.4, numpy 2.4.6. Source: Kornblith and others, Similarity of Neural Network Representations
#   Revisited, 2019, equation of linear CKA.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 tqdm==4.67.1 matplotlib==3.10.7 seaborn==0.13.2
"$folder/venv/bin/pip" install -q --no-deps --target "$folder/package" TorchXAI==0.0.4
# The module is read from its file: the package's own __init__ imports torch, which CKA does not need.
cd "$folder/package/torchxai/cka"
MPLBACKEND=Agg "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from cka import CKA

generator = np.random.default_rng(0)
layer = generator.normal(size=(60, 8))
layer -= layer.mean(axis=0)
other = layer + generator.normal(size=layer.shape)
signs = np.where(np.arange(60) % 2, 1.0, -1.0)[:, None]
turned = layer * signs


def right(first, second):
    """Return linear CKA by the formula of features, without kernels."""
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    norm = np.linalg.norm
    return norm(first.T @ second) ** 2 / (norm(first.T @ first) * norm(second.T @ second))


def report(name, first, second):
    seen, expected = CKA(first, second), right(first, second)
    print(f"{name}: torchxai {seen:.6g}, by hand {expected:.6g}")
    return seen, expected


same = report("a layer and itself", layer, layer)
small = report("the layer divided by 10 and itself", layer / 10, layer / 10)
noisy = report("the layer and itself with noise", layer, other)
flipped = report("the layer and itself, every second image negated", layer, turned)
assert np.allclose([same[1], small[1]], 1) and flipped[1] < 0.2
assert np.isclose(same[0], 0.7275, atol=1e-4) and np.isclose(small[0] / same[0], 10**4), "the behaviour changed"
assert flipped[0] > same[0] and noisy[0] < noisy[1], "the behaviour changed"
PYTHON
