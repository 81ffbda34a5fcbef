#!/usr/bin/env bash
# Guess: `v2.ToDtype(torch.uint8, scale=True)` turns half-precision images in [0, 1] into bytes, up to a level or two; a
#   conversion that cannot be exact is refused, as that from float32 to int32 is.
# Behaviour: with torchvision 0.28.0 1.0 becomes 0, in float16 and in bfloat16; all other shades are within one level.
#   From float32 to uint16 white becomes 0, too. `to_pil_image` and `save_image` give 255.
# Cause: `to_dtype_image` (torchvision/transforms/v2/functional/_misc.py) multiplies by 255.999, which is 256 in half
#   precision, and 256 has no byte; 65535.999 is 65536 in float32.
# Why it matters: a map in [0, 1] divided by its largest value has exactly one pixel of 1.0: the most important pixel is
#   stored as the least important. Saturated skies become black.
# Versions: torchvision 0.28.0, torch 2.13.0. Half precision: https://github.com/pytorch/vision/issues/6799.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchvision==0.28.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from torchvision.transforms import v2

shades = torch.arange(256).view(1, 16, 16)
for given, stored, expected in (
    (torch.float32, torch.uint8, 255),
    (torch.float16, torch.uint8, 0),
    (torch.bfloat16, torch.uint8, 0),
    (torch.float64, torch.uint16, 65535),
    (torch.float32, torch.uint16, 0),
):
    found = v2.ToDtype(stored, scale=True)((shades.double() / 255).to(given)).int().flatten()
    levels = found / (torch.iinfo(stored).max / 255)
    others = (levels[:-1] - shades.flatten()[:-1]).abs().max().item()
    print(f"{given} to {stored}: white becomes {found[-1].item()}; other shades move by up to {others:.2g} of 255")
    assert found[-1].item() == expected and others < 1.5, "the behaviour changed"
PYTHON
