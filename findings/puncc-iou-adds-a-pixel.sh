#!/usr/bin/env bash
# Guess: the intersection over union (IoU) of two boxes is 0 if they are apart, and does not depend on the unit of their
#   coordinates, so boxes in shares of the image and in pixels have the same.
# Behaviour: with puncc 0.9.3 it does. Two boxes in opposite quarters of the image have .175 in shares of the image and
#   0 in pixels; a box and its half have .78 in shares, and .506 in pixels of an image of 100, where .5 is right. The
#   docstring names the order of coordinates and no unit.
# Cause: `iou` (deel/puncc/metrics.py) adds 1 to each width and height, as if a box's last pixel belonged to it.
#   `object_detection_mean_area` of the same module adds nothing.
# Why it matters: detectors and their conformal boxes are often in shares of the image (YOLO). All pairs then overlap,
#   the mean IoU is near 1 whatever the network finds, and a threshold of .5 matches everything with everything.
# Versions: puncc 0.9.3, numpy 1.26.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q puncc==0.9.3 numpy==1.26.4
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from deel.puncc.metrics import iou, object_detection_mean_area


def compute_iou(first, second):
    """Compute the IoU of two boxes (left, top, right, bottom) by areas."""
    left, top = np.maximum(first[:2], second[:2])
    right, bottom = np.minimum(first[2:], second[2:])
    shared = max(right - left, 0) * max(bottom - top, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return shared / (sum(areas) - shared)


whole = np.array([0.1, 0.1, 0.9, 0.9])
pairs = {
    "in opposite quarters": (np.array([0.1, 0.1, 0.2, 0.2]), np.array([0.6, 0.6, 0.7, 0.7])),
    "a box and its half": (whole, np.array([0.1, 0.1, 0.5, 0.9])),
}
for name, (first, second) in pairs.items():
    found = {side: iou(side * first[None], side * second[None]).item() for side in (1, 100, 10_000)}
    right = compute_iou(first, second)
    assert np.isclose(right, compute_iou(100 * first, 100 * second))
    print(f"{name}: {right:.3f}; puncc {', '.join(f'{value:.3f} (side {side})' for side, value in found.items())}")
    assert found[1] > right + 0.1 and abs(found[10_000] - right) < 0.001, "the behaviour changed"
assert np.isclose(object_detection_mean_area(whole[None]), 0.64), "areas add nothing"
PYTHON
