#!/usr/bin/env bash
# Guess: networks that compute their ReLU as `relu(x)`, `x.clamp(min=0)` or `maximum(x, 0)` have equal outputs, and equal
#   gradients wherever a gradient exists; that it does not exist at 0 matters nowhere, because no activation is exactly 0.
# Behaviour: with torch 2.13.0 the gradient at 0 is 0, 1 and 1/2. Convolutions without biases, or with biases that start
#   at 0, are exactly 0 on black areas, so for a shape on black the gradient maps of the three differ in 86 % of the
#   pixels, although the outputs are the same bit for bit; with `clamp`, the mean map of the background is 4 times that
#   of `relu`.
# Cause: derivatives.yaml lets `threshold_backward` pass gradients above the threshold, `clamp` pass them at its limits,
#   too, and `maximum` share them equally between equal values; each is a valid subgradient.
# Why it matters: digits, X-rays and cut-outs are mostly black. Sensitivity maps of the background, and every ranking made
#   of them, depend on how a rectifier is spelled; exporters and quantisers exchange the spellings.
# Versions: torch 2.13.0 (CPU).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torch import nn

rectifiers = {
    "relu(x)": torch.relu,
    "maximum(x, 0)": lambda values: torch.maximum(values, torch.zeros_like(values)),
    "clamp(x, min=0)": lambda values: values.clamp(min=0),
}
torch.manual_seed(0)
first, second = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 3, padding=1, bias=False)
last = nn.Linear(8, 10)
image = torch.zeros(1, 1, 32, 32)
image[..., 10:22, 10:22] = torch.rand(12, 12)

outputs, maps, at_zero = {}, {}, {}
for name, rectify in rectifiers.items():
    zero = torch.zeros((), requires_grad=True)
    (at_zero[name],) = (one.item() for one in torch.autograd.grad(rectify(zero), zero))
    pixels = image.clone().requires_grad_()
    outputs[name] = last(rectify(second(rectify(first(pixels)))).mean((2, 3)))
    (gradient,) = torch.autograd.grad(outputs[name].max(), pixels)
    maps[name] = gradient.flatten()
    shape, black = gradient[image > 0].abs().mean(), gradient[image == 0].abs().mean()
    print(f"{name:16} gradient at 0: {at_zero[name]:.1f}; mean of the map: {shape:.5f} on the shape, {black:.5f} on black")

reference = maps["relu(x)"]
for name in ("maximum(x, 0)", "clamp(x, min=0)"):
    differ = (~torch.isclose(maps[name], reference, rtol=1e-3, atol=1e-9)).float().mean().item()
    print(f"{name}: {100 * differ:.0f} % of the pixels differ from relu(x)")
    assert torch.equal(outputs[name], outputs["relu(x)"])
    assert differ > 0.5, "the behaviour changed: maps agree"
assert list(at_zero.values()) == [0, 0.5, 1], "the behaviour changed: gradients at 0"
PYTHON
