#!/usr/bin/env bash
# Guess: `evaluate(truth, mask, "BD")` of miseval, the mean distance of the segmentation's boundary from that of the truth,
#   is 0 for a perfect mask and grows with the error.
# Behaviour: with miseval 1.3.0 a perfect mask has the mean distance of any two points of its own boundary: 12.8 for a
#   disc with a radius of 10 pixels, 38.2 for 30, 5.1 for 4. A disc of 4 that misses half of the object has 6.3 and so looks
#   better than each larger perfect one; moving the disc of 10 by one pixel adds .04.
# Cause: `calc_Boundary_Distance` (miseval/boundary_distance.py) takes the mean over all pairs of boundary points, where
#   the nearest point of the other boundary is meant.
# Why it matters: the number says how large the objects are. Its mean over images moves with the patients, and differences
#   between two networks are lost in it.
# Versions: miseval 1.3.0, dictances 1.5.3, hausdorff 0.2.6, numba 0.68.1, scikit-image 0.26.0, scikit-learn 1.9.1,
#   scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q miseval==1.3.0 dictances==1.5.3 hausdorff==0.2.6 numba==0.68.1 scikit-image==0.26.0 \
  scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from miseval import evaluate
from scipy.spatial import distance
from skimage.measure import find_contours

rows, columns = np.mgrid[:96, :96]


def draw(column, radius):
    return ((rows - 48) ** 2 + (columns - column) ** 2 <= radius**2).astype(int)


found = {}
for radius, shift in ((4, 0), (10, 0), (30, 0), (10, 1), (4, 4)):
    truth, mask = draw(48, radius), draw(48 + shift, radius)
    one, other = (np.concatenate(find_contours(each == 1)) for each in (truth, mask))
    distances = distance.cdist(one, other)
    nearest = (distances.min(0).mean() + distances.min(1).mean()) / 2
    found[radius, shift] = value = float(evaluate(truth, mask, "BD"))
    print(f"radius {radius}, moved by {shift}: BD {value:.2f}; to the nearest point {nearest:.2f}")
    assert abs(value - distances.mean()) < 1e-6, "the behaviour changed"
    assert (nearest == 0) == (shift == 0)
assert found[4, 4] < found[10, 0] < found[30, 0], "the behaviour changed"
assert found[10, 1] - found[10, 0] < 0.1
PYTHON
