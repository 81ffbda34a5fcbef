#!/usr/bin/env bash
# Guess: `evaluate(truth, mask, "HD")` of miseval is the Hausdorff distance of two masks in pixels, so a mask that lies 30
#   pixels beside the object has 30; "AHD" is the average Hausdorff distance, on which one stray pixel weighs little.
# Behaviour: with miseval 1.3.0 the "HD" of a disc 30 pixels below the object is 0, as of a perfect mask; to the right it
#   is 4.58, and 1.41 one pixel to the right. "AHD" is the Hausdorff distance: 30 for both, and 49.5 for a perfect mask
#   with one stray pixel, whose average distance is .08.
# Cause: `calc_SimpleHausdorffDistance` (miseval/hausdorff.py) gives the masks to the package hausdorff, which takes a
#   table with the coordinates of a point in each row. So each row of the image is a point, and the set of rows stays the
#   same if the object moves up or down. `calc_AverageHausdorffDistance` returns a maximum.
# Why it matters: miseval is a library for the evaluation of medical segmentations. A network that finds the object at
#   the wrong height is perfect by "HD", and the number looks like pixels.
# Versions: miseval 1.3.0, hausdorff 0.2.6, numba 0.68.1, scikit-image 0.26.0, scikit-learn 1.9.1, scipy 1.17.1,
#   numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q miseval==1.3.0 hausdorff==0.2.6 numba==0.68.1 scikit-image==0.26.0 \
  scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from miseval import evaluate
from scipy.spatial import distance

rows, columns = np.mgrid[:96, :96]


def draw(row, column, radius=10):
    return ((rows - row) ** 2 + (columns - column) ** 2 <= radius**2).astype(int)


truth = draw(48, 48)
masks = {
    "equal": truth,
    "1 right": draw(48, 49),
    "30 right": draw(48, 78),
    "30 below": draw(78, 48),
    "one stray pixel": np.maximum(truth, draw(90, 90, 0)),
}
found = {}
for name, mask in masks.items():
    distances = distance.cdist(np.argwhere(truth), np.argwhere(mask))
    largest = max(distances.min(0).max(), distances.min(1).max())
    average = (distances.min(0).mean() + distances.min(1).mean()) / 2
    hd, ahd = (float(evaluate(truth, mask, metric)) for metric in ("HD", "AHD"))
    found[name] = hd, ahd, largest, average
    print(f"{name}: HD {hd:.2f}, AHD {ahd:.2f}; by hand {largest:.2f}, average {average:.2f}")
    assert abs(ahd - largest) < 1e-9, "the behaviour changed"
assert found["30 below"][0] == 0 and found["30 right"][0] < 5, "the behaviour changed"
assert found["30 below"][2] == 30 and found["one stray pixel"][3] < 0.5
PYTHON
