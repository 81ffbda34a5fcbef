#!/usr/bin/env bash
# Guess: `mahotas.euler` counts objects less their holes; it pads the image with background (`mode="constant"`), so an object
#   at the edge counts as any other, as in scikit-image and in MATLAB's `bweuler`.
# Behaviour: with mahotas 1.4.19 a square has 1 inside the image and at the upper or left edge, .5 at the lower or right one
#   and .25 in their corner. A bar from edge to edge has .5, a mask of the whole image .25, one with a hole -.75.
# Cause: `euler` (mahotas/euler.py) sums over squares of 2 x 2 pixels, one for each pixel of the image and those before it.
#   The squares that begin in the last row or column are missing. A frame of background around the mask is a remedy.
# Why it matters: the number is a feature of tissue and of cells, and a check of whether a mask or a map is in one piece.
#   Sums of halves of several objects are whole numbers again, so two objects cut by the lower edge look like one.
# Versions: mahotas 1.4.19, scikit-image 0.26.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mahotas==1.4.19 scikit-image==0.26.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import mahotas
import numpy as np
from skimage.measure import euler_number


def draw(*boxes):
    mask = np.zeros((20, 20), bool)
    for rows, columns in boxes:
        mask[slice(*rows), slice(*columns)] = True
    return mask


full = draw(((0, 20), (0, 20)))
holed = full & ~draw(((8, 12), (8, 12)))
cases = {
    "a square inside": (draw(((5, 9), (5, 9))), 1, 1),
    "at the lower edge": (draw(((16, 20), (5, 9))), 1, 0.5),
    "at the upper edge": (draw(((0, 4), (5, 9))), 1, 1),
    "in the lower right corner": (draw(((16, 20), (16, 20))), 1, 0.25),
    "a bar from edge to edge": (draw(((5, 9), (0, 20))), 1, 0.5),
    "two squares at the lower edge": (draw(((16, 20), (2, 6)), ((16, 20), (12, 16))), 2, 1),
    "the whole image": (full, 1, 0.25),
    "the whole image with a hole": (holed, 0, -0.75),
}
for name, (mask, objects_less_holes, known) in cases.items():
    given, framed = mahotas.euler(mask), mahotas.euler(np.pad(mask, 1))
    print(f"{name}: {given}, in a frame {framed}, scikit-image {euler_number(mask)}")
    assert framed == euler_number(mask) == objects_less_holes
    assert given == known, "the behaviour changed"
PYTHON
