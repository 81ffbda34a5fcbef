#!/usr/bin/env bash
# Guess: if a segmentation misses the object, seg-metrics gives its Hausdorff distance as infinite, missing (NaN), or as
#   the size of the image; 0 is the distance of two equal masks.
# Behaviour: with seg-metrics 1.2.8 it is 0, and so are the 95 % Hausdorff distance and the mean surface distance. So has
#   a mask of an object that is not there. A mask that is one pixel off has 1.
# Cause: `SignedMaurerDistanceMap` is not called for an empty mask; the mask itself, all 0, takes the place of the
#   distances (seg_metrics/seg_metrics.py, lines 139 and 157). The warnings name precision, recall and FPR alone.
# Why it matters: the mean over images falls with each object that a network misses, so of two networks the one that
#   finds nothing is best. The same holds for maps that are cut at a threshold and scored against masks.
# Versions: seg-metrics 1.2.8, medutils 0.1.21, SimpleITK 2.5.7, numpy 2.4.6, pandas 3.1.1, matplotlib 3.11.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q medutils==0.1.21 SimpleITK==2.5.7 numpy==2.4.6 pandas==3.1.1 matplotlib==3.11.2 \
    tqdm==4.70.1
"$folder/venv/bin/pip" install -q --no-deps seg-metrics==1.2.8 # it names a window toolkit that it never imports
MPLBACKEND=agg "$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PYTHON'
import numpy as np
from seg_metrics.seg_metrics import write_metrics

nothing = np.zeros((32, 32, 32), int)
cube, beside = nothing.copy(), nothing.copy()
cube[10:20, 10:20, 10:20] = 1
beside[11:21, 10:20, 10:20] = 1
names = ("hd", "hd95", "msd")
for name, truth, made in (
    ("a missed cube", cube, nothing),
    ("a cube that is not there", nothing, cube),
    ("a cube one voxel off", cube, beside),
):
    result = write_metrics([1], gdth_img=truth, pred_img=made, metrics=["dice", *names])[0]
    dice, distances = float(result["dice"][0]), [float(result[key][0]) for key in names]
    print(f"{name}: dice {dice:.2f}, Hausdorff distance {distances[0]}, at 95 % {distances[1]}, mean {distances[2]:.2f}")
    assert (dice == 0) == (made is not beside), "the behaviour changed"
    assert (distances == [0, 0, 0]) == (made is not beside), "the behaviour changed"
PYTHON
