#!/usr/bin/env bash
# Guess: an image processor of transformers that gets floats in [0, 1] leaves them in that range, or warns ("It looks
#   like you are trying to rescale already rescaled images").
# Behaviour: with transformers 5.24.0 it divides them by 255 once more and says nothing. The network sees a black image:
#   no value is more than .4 % of the range above black. This holds for ViT, CLIP, ConvNeXt and SigLIP,
#   on Pillow and on torch, for arrays and for tensors. The same image as bytes is right.
# Cause: `is_scaled_image` (transformers/image_utils.py), which gave the warning, is called by few old processors; the
#   backends of version 5 do not call it.
# Why it matters: images are loaded as bytes; images with removed pixels are floats in [0, 1]. Whatever was removed,
#   accuracy falls to that of black images, and each estimator of importance looks perfect.
# Versions: transformers 5.24.0, torch 2.13.0, torchvision 0.28.0, pillow 13.0.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.24.0 torch==2.13.0 torchvision==0.28.0 pillow==13.0.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import logging
import sys

import numpy as np
import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

import transformers


class Listener(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())


said = []
logging.getLogger("transformers").addHandler(Listener())
image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
floats = torch.tensor(image).permute(2, 0, 1) / 255
for name in ("ViT", "CLIP", "ConvNext", "Siglip"):
    for backend in ("", "Pil"):
        process = getattr(transformers, f"{name}ImageProcessor{backend}")()
        black, right = (process(each, return_tensors="pt")["pixel_values"] for each in (np.zeros_like(image), image))
        said.clear()
        for kind, given in (("tensor", floats), ("array", floats.numpy())):
            found = process(given, return_tensors="pt")["pixel_values"]
            share = (found - black).abs().max() / (right - black).abs().max()
            print(f"{name}, {backend or 'torch'}, {kind}: at most {100 * share:.1f} % above black; says {said}")
            assert share < 0.01 and not said, "the behaviour changed"
PYTHON
