#!/usr/bin/env bash
# Guess: `Resize(80, keep_ar=True)` of SOLT makes the height 80 and computes "the width using the original aspect ratio", as
#   its documentation says: an image of 100 rows and 200 columns becomes one of 80 and 160.
# Behaviour: with solt 0.2.1 it has 160 rows and 80 columns: height and width change places, and a circle becomes an
#   ellipse four times as high as wide. In an upright image of 200 x 100 it is four times as wide as high.
# Cause: `Resize._handle_resize` (solt/transforms/_transforms.py) returns (height, width), and `cv2.resize` reads
#   (width, height).
# Why it matters: "keep the ratio" is asked for where shape is what counts. After a crop to a square, which follows in most
#   pipelines, the sizes look right, and the only trace is the shape of things: upright images are widened and broad ones
#   narrowed, each by the square of its own ratio, so images of one class differ more than before.
# Versions: solt 0.2.1, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6, opencv-python-headless 5.0.0.93, scipy 1.17.1,
#   scikit-image 0.26.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q solt==0.2.1 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6 \
    opencv-python-headless==5.0.0.93 scipy==1.17.1 scikit-image==0.26.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import numpy as np
import torch
from skimage.transform import resize

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

import solt
import solt.transforms as slt


def measure(disc):
    """Return the height over the width of the bright part."""
    return np.ptp(np.flatnonzero((disc > 127).any(1))) / np.ptp(np.flatnonzero((disc > 127).any(0)))


for height, width in ((100, 200), (200, 100), (150, 200)):
    rows, columns = np.indices((height, width))
    disc = ((rows - height / 2) ** 2 + (columns - width / 2) ** 2 < 40**2) * np.uint8(255)
    stream = solt.Stream([slt.Resize(80, keep_ar=True), slt.Crop(36)])
    resized = slt.Resize(80, keep_ar=True)({"image": disc[..., None]}, return_torch=False).data[0]
    cropped = stream({"image": disc[..., None]}, return_torch=False).data[0][..., 0]
    right = resize(disc, (80, 80 * width // height), preserve_range=True)
    print(f"{height} x {width}: {resized.shape[0]} x {resized.shape[1]} instead of {right.shape[0]} x {right.shape[1]}; "
          f"the disc is {measure(resized[..., 0]):.2f} times as high as wide, by skimage {measure(right):.2f}; "
          f"after a crop {cropped.shape}")
    assert resized.shape[:2] == right.shape[::-1], "the behaviour changed"
    assert abs(measure(right) - 1) < 0.05 and abs(measure(resized[..., 0]) / (width / height) ** 2 - 1) < 0.1
PYTHON
