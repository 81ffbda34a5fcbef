#!/usr/bin/env bash
# Guess: `masks_to_boxes` of torchvision returns the box that holds the mask, with an area of at least the mask's, so that
#   of a square of 10 x 10 pixels is 10 wide and `box_iou` with its box from pycocotools is 1.
# Behaviour: with torchvision 0.28.0 it is 9 wide: `x2` is the last column of the mask and not the end of that column. A
#   mask of one pixel, or of one row, has a box of area 0. The IoU with the box of pycocotools, and of COCO's files, is .81
#   for 10 pixels, .56 for 4 and .25 for 2, so at a threshold of .5 perfect masks of up to 3 pixels are misses.
# Cause: `masks_to_boxes` (torchvision/ops/boxes.py) takes minimum and maximum of the indices. `box_area` and `box_iou`
#   of the same file subtract without adding 1. The documentation warns of `x1 = x2` for "degenerate" masks alone.
# Why it matters: a map is cut at a threshold and the box of what remains is compared with the box of the object
#   (localisation accuracy). The loss is largest for small objects and for maps scored at 7 x 7 or 14 x 14.
# Versions: torchvision 0.28.0, pycocotools 2.0.11, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchvision==0.28.0 pycocotools==2.0.11 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch
from pycocotools import mask as coco
from torchvision.ops import box_area, box_convert, box_iou, masks_to_boxes

for side in (1, 2, 3, 4, 10, 56):
    mask = torch.zeros(1, 64, 64, dtype=torch.bool)
    mask[0, 4 : 4 + side, 5 : 5 + side] = True
    here = masks_to_boxes(mask)
    there = coco.toBbox(coco.encode(np.asfortranarray(mask[0].numpy().astype(np.uint8))))
    there = box_convert(torch.tensor(there[None], dtype=torch.float32), "xywh", "xyxy")
    iou = box_iou(here, there).item()
    print(
        f"{side} x {side} pixels: area of the box {box_area(here).item():.0f} (torchvision), "
        f"{box_area(there).item():.0f} (pycocotools), IoU {iou:.2f}"
    )
    assert box_area(there) == side**2
    assert box_area(here) == (side - 1) ** 2, "the behaviour changed"
    assert abs(iou - ((side - 1) / side) ** 2) < 1e-6, "the behaviour changed"
PYTHON
