#!/usr/bin/env bash
# Guess: `average_precision` of Cellpose, TP / (TP + FP + FN), lies in [0, 1]; an image without background is one as any other,
#   and an exact segmentation has 1.
# Behaviour: with Cellpose 4.2.1.1 an exact segmentation of four cells that fill the image has 2.00, with -1 false positives and
#   -1 missed cells. One that joins two of the cells has .67 instead of .40. An exact one of 64 cells has 1.03, and of 64
#   cells with gaps 1.00.
# Cause: objects are counted as `len(np.unique(mask)) - 1` (cellpose/metrics.py); the 1 stands for the background, also where
#   there is none. The count by the greatest label, which it replaced (https://github.com/MouseLand/cellpose/pull/1080), had
#   no such fault. The issues found do not name it.
# Why it matters: the number is the one that segmentation networks of cells are compared by, image by image. Crops of confluent
#   cells and of tissue have no background, and raise the mean beyond what errors can lower it.
# Versions: cellpose 4.2.1.1, torch 2.13.0, scipy 1.17.1, scikit-image 0.26.0, opencv-python-headless 5.0.0.93, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 scipy==1.17.1 scikit-image==0.26.0 opencv-python-headless==5.0.0.93 \
    fastremap==1.21.0 fill-voids==2.1.2 tqdm==4.70.1
"$folder/venv/bin/pip" install -q --no-deps cellpose==4.2.1.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from cellpose.metrics import average_precision


def count_by_hand(truth, found, threshold=0.75):
    """Return TP / (TP + FP + FN); above .5 each object has at most one partner."""
    objects, places = (np.setdiff1d(mask, 0) for mask in (truth, found))
    pairs = [(truth == k, found == m) for k in objects for m in places]
    hits = sum((one & other).sum() >= threshold * (one | other).sum() for one, other in pairs)
    return hits / (len(objects) + len(places) - hits)


four = np.array([[1, 2], [3, 4]]).repeat(16, 0).repeat(16, 1)
joined = np.where(four == 4, 3, four)
many = np.arange(1, 65).reshape(8, 8).repeat(16, 0).repeat(16, 1)
spaced = many * (np.indices(many.shape) % 16 > 0).all(0)
for name, truth, found, known in (
    ("four cells, all exact", four, four, 2),
    ("four cells, two of them joined", four, joined, 2 / 3),
    ("64 cells, all exact", many, many, 64 / 62),
    ("64 cells with gaps, all exact", spaced, spaced, 1),
):
    given, hits, false, missed = (value[0] for value in average_precision(truth, found, [0.75]))
    right = count_by_hand(truth, found)
    print(f"{name}: {given:.2f} ({hits:.0f} right, {false:.0f} false, {missed:.0f} missed), by hand {right:.2f}")
    assert right == (0.4 if found is joined else 1)
    assert abs(given - known) < 1e-6, "the behaviour changed"
PYTHON
