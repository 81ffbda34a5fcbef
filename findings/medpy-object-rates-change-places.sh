#!/usr/bin/env bash
# Guess: `obj_tpr(result, reference)` of MedPy is the share of the objects of the reference that the result finds, and
#   `obj_fpr` the share of the result's objects that are false alarms, as their names and the notes of `obj_tpr` ("a
#   perfect score of 1 tells that all distinct binary objects in the reference array also exist in the result array") say.
# Behaviour: with MedPy 0.5.2 a result that finds one of ten lesions and nothing else has a true positive rate of 1 and a
#   false positive rate of .9. One that finds all of ten and has ninety false alarms has .1 and 0.
# Cause: both (medpy/metric/binary.py) divide by the other array's number of objects: `obj_tpr` is the precision, and
#   `obj_fpr` the share of missed objects. The first sentences of their documentation name the arrays in this order, the
#   notes of the one and the returned value of the other in the opposite one.
# Why it matters: detected lesions, and the parts of an explanation that lie on objects, are counted by these two. Who
#   maximises the first and minimises the second prefers networks that find few objects and networks with many false
#   alarms, each by the number that was to catch it; voxel rates of the same package (`true_positive_rate`) are right.
# Versions: MedPy 0.5.2, scipy 1.17.1, numpy 2.4.6, SimpleITK 2.5.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q MedPy==0.5.2 scipy==1.17.1 numpy==2.4.6 SimpleITK==2.5.7 \
  setuptools==80.10.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from medpy.metric import obj_fpr, obj_tpr, true_positive_rate
from scipy import ndimage


def draw(count):
    """Return a mask of `count` squares of 3 x 3 pixels."""
    mask = np.zeros((60, 60), int)
    for place in range(count):
        row, column = divmod(place, 10)
        mask[6 * row : 6 * row + 3, 6 * column : 6 * column + 3] = 1
    return mask


def count_rates(result, reference):
    """Return the share of found objects of the reference, and that of the result's objects that touch none."""
    found, objects = ndimage.label(reference)
    made, alarms = ndimage.label(result)
    touched = len(set(found[result > 0]) - {0})
    true = len(set(made[reference > 0]) - {0})
    return touched / objects, 1 - true / alarms


for made, there, given in ((1, 10, (1, 0.9)), (100, 10, (0.1, 0)), (10, 10, (1, 0))):
    result, reference = draw(made), draw(there)
    rates = obj_tpr(result, reference), obj_fpr(result, reference)
    right = count_rates(result, reference)
    print(f"{made:3} objects for {there}: true positive rate {rates[0]:.2f} "
          f"(counted {right[0]:.2f}), false positive rate {rates[1]:.2f} (counted {right[1]:.2f}), "
          f"of voxels {true_positive_rate(result, reference):.2f}")
    assert np.allclose(rates, given), "the behaviour changed"
    assert np.isclose(true_positive_rate(result, reference), right[0])
    assert np.allclose(rates, (1 - right[1], 1 - right[0])), "the two rates do not change places any more"
PYTHON
