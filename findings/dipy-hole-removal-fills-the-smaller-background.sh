#!/usr/bin/env bash
# Guess: `remove_holes_and_islands` of dipy fills what a mask encloses, as `binary_fill_holes` of scipy does, and leaves the
#   background alone, also if the object touches the edges of the image.
# Behaviour: with dipy 1.12.1 it fills all background but the largest connected part of it. A bar from edge to edge below the
#   middle of a volume, without any hole, grows from 3,072 to 7,168 voxels: what is below it becomes object. Two such bars grow
#   to all but the largest gap. With one voxel of air at the sides the same bar keeps its size.
# Cause: the step for holes (dipy/segment/utils.py) labels the background, keeps the largest label, and takes its complement.
# Why it matters: bodies, limbs and cropped fields of view reach the edge. A mask that was right is then mostly air; the
#   images of a data set in which the object lies in the middle show nothing of it.
# Versions: dipy 1.12.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q dipy==1.12.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from dipy.segment.utils import remove_holes_and_islands
from scipy.ndimage import binary_fill_holes


def draw(*rows, sides=0, hole=False):
    mask = np.zeros((32, 32, 16), int)
    for first, last in rows:
        mask[first:last, sides : 32 - sides, sides : 16 - sides] = 1
    if hole:
        mask[20, 15, 8] = 0
    return mask


cases = {
    "a bar from edge to edge": (draw((18, 24)), 3072 + 8 * 512),
    "the same with a hole": (draw((18, 24), hole=True), 3072 + 8 * 512),
    "a bar with air at the sides": (draw((18, 24), sides=1), 6 * 30 * 14),
    "the same with a hole, with air": (draw((18, 24), sides=1, hole=True), 6 * 30 * 14),
}
for name, (mask, known) in cases.items():
    filled = binary_fill_holes(mask).sum()
    given = remove_holes_and_islands(mask).sum()
    print(f"{name}: {mask.sum()} voxels, scipy {filled}, dipy {given}")
    assert filled - mask.sum() == ("hole" in name)
    assert given == known, "the behaviour changed"
PYTHON
