#!/usr/bin/env bash
# Guess: `rotate(probability, max_left_rotation=25, max_right_rotation=0)` of Augmentor turns images to the left by up to 25
#   degrees, and equal numbers turn by "an exact number of degrees: set both to the same value", as the documentation says.
# Behaviour: with Augmentor 0.2.12 images turn to the *right*, never to the left, and half of them are not turned at all. With
#   20 and 20 angles are anything from -20 to 20 degrees, in whole numbers. `rotate_without_crop` has the same directions.
# Cause: `RotateRange` and `RotateStandard` (Augmentor/Operations.py) make the left angle negative; Pillow turns to the left by
#   positive angles. A side is drawn first and then an angle from 0 up to its maximum.
# Why it matters: one-sided turns are chosen where a side means something: handwriting, faces, X-rays, traffic signs. The
#   network then learns the turns that do not occur, and the augmented images are half copies.
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
from PIL import Image, ImageDraw

SIDE = 201
image = Image.new("L", (SIDE, SIDE))
ImageDraw.Draw(image).ellipse((95, 60, 105, 70), fill=255)  # above the centre: turned to the left it moves left
rows, columns = np.indices((SIDE, SIDE)) - SIDE // 2


def draw_angles(name, count=300, **options):
    """Return angles by which images were turned, positive to the left, from where the disc went."""
    random.seed(0)
    pipeline = Augmentor.Pipeline()
    getattr(pipeline, name)(probability=1, **options)
    angles = []
    for _ in range(count):
        (result,) = pipeline.operations[0].perform_operation([image])
        weights = np.asarray(result, dtype=float)
        angles.append(np.degrees(np.arctan2(-(weights * columns).sum(), -(weights * rows).sum())))
    return np.array(angles)


for name, most in (("rotate", 25), ("rotate_without_crop", 25)):
    for side in ("left", "right"):
        limits = {f"max_{other}_rotation": most if other == side else 0 for other in ("left", "right")}
        angles = draw_angles(name, **limits)
        left, right = (angles > 0.5).mean(), (angles < -0.5).mean()
        print(f"{name:19} with 25 degrees to the {side:5}: {left:.0%} turned to the left, {right:.0%} to the right")
        assert (left == 0 and right > 0.35) if side == "left" else (right == 0 and left > 0.35), "the behaviour changed"
angles = draw_angles("rotate", max_left_rotation=20, max_right_rotation=20)
print(f"rotate with 20 and 20: {angles.min():.0f} to {angles.max():.0f} degrees, standard deviation {angles.std():.0f}")
assert angles.min() < -15 and angles.max() > 15 and 8 < angles.std() < 16, "angles are exact now"
PYTHON
