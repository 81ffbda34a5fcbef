#!/usr/bin/env bash
# Guess: `crop_random`, `crop_centre` and `zoom_random` of Augmentor with `percentage_area=0.5` keep half of the image's area:
#   "the area, as a percentage of the current image's area, to crop".
# Behaviour: with Augmentor 0.2.12 they keep a quarter. The number is taken of the width and of the height, so .8 keeps .64,
#   .5 keeps .25 and .2 keeps .04, and an object of a tenth of the image is enlarged five times as much as meant. With
#   `randomise_percentage_area=True` and .8 the mean area is .24 where .45 is meant.
# Cause: `floor(w * r_percentage_area)` and `floor(h * r_percentage_area)` (`CropPercentage` and `ZoomRandom`,
#   Augmentor/Operations.py), where a square root is missing.
# Why it matters: "random crops of at least half of the image" is a line of many training recipes; a network
#   trained by this one sees a quarter, in which the labelled object often is not.
# Versions: Augmentor 0.2.12, numpy 2.4.6, pillow 13.0.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q Augmentor==0.2.12 numpy==2.4.6 pillow==13.0.0 tqdm==4.70.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import random

import Augmentor
import numpy as np
from PIL import Image

SIDE = 200
rows, columns = np.indices((SIDE, SIDE), dtype=np.float32)
image = Image.fromarray(columns / SIDE)  # a ramp from 0 to 1, so the range of a zoomed image is the part it shows


def measure(name, share, count=1, **options):
    """Return the mean share of the image's area that remains."""
    random.seed(0)
    pipeline = Augmentor.Pipeline()
    getattr(pipeline, name)(probability=1, percentage_area=share, **options)
    shares = []
    for _ in range(count):
        result = image
        for operation in pipeline.operations:
            (result,) = operation.perform_operation([result])
        if name == "zoom_random":
            shares.append(np.ptp(np.asarray(result)).item() ** 2)  # as much of the height as of the width
        else:
            shares.append(result.size[0] * result.size[1] / SIDE**2)
    return np.mean(shares)


for name in ("crop_random", "crop_centre", "zoom_random"):
    for share in (0.8, 0.5, 0.2):
        found = measure(name, share)
        print(f"{name:11} with percentage_area={share}: {found:.2f} of the area remains")
        assert abs(found - share**2) < 0.02, "the behaviour changed"
mean = measure("crop_random", 0.8, 2000, randomise_percentage_area=True)
print(f"randomised up to .8: {mean:.2f} on average, meant {(0.1 + 0.8) / 2:.2f}")
assert mean < 0.27
PYTHON
