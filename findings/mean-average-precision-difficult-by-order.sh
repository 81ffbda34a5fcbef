#!/usr/bin/env bash
# Guess: objects that PASCAL VOC calls difficult neither help nor harm in mean-average-precision, whose boxes of the truth
#   have a column for them: a detector that finds all other objects has an average precision of 1.
# Behaviour: with mean-average-precision 2024.1.5.0 it has .61 here, where a quarter of the objects is difficult, and .73 if
#   it finds those, too. A detector with .74 by the rules of VOC has .55, and .54 if the truth lists the same boxes in
#   reverse. Without difficult objects both agree to the sixth digit.
# Cause: `compute_match_table` (mean_average_precision/utils.py) repeats each flag and then cuts the list into rows, one for
#   each prediction, where the whole list is to be repeated; so flags of other objects are read. Flags of crowds, as COCO
#   has them, go the same way. `add` counts difficult objects among those to be found, too.
# Why it matters: detectors, and boxes drawn around maps, are compared by this number. The flags move it by more than
#   detectors differ, and the order of annotations counts.
# Versions: mean-average-precision 2024.1.5.0, pandas 3.1.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mean-average-precision==2024.1.5.0 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from mean_average_precision import MetricBuilder

generator = np.random.default_rng(0)
images = []  # for each image: boxes that do not overlap, flags, scores, chance to be found, score of a false box
for _ in range(100):
    count = generator.integers(3, 7)
    left = 100 * generator.permutation(12)[:count]
    boxes = np.stack([left, 0 * left, left + 50, 0 * left + 50], axis=1)
    images.append((boxes, *generator.random((3, count)), generator.random(1)))


def measure(find, share=0.25, false_boxes=0, turn=1):
    """Return the average precision by the library, and by the rules of PASCAL VOC."""
    metric = MetricBuilder.build_evaluation_metric("map_2d", num_classes=1)
    scores, right, objects = [], [], 0
    for boxes, flags, ranks, chance, false_score in images:
        difficult = flags < share
        found = find(difficult, chance)
        truth = np.column_stack([boxes, 0 * ranks, difficult, 0 * ranks])
        false = np.column_stack([[[0, 500, 50, 550, 0]], false_score])[:false_boxes]
        metric.add(np.concatenate([np.column_stack([boxes, 0 * ranks, 0.2 + ranks])[found], false]), truth[::turn])
        counted = found & ~difficult
        scores += [*0.2 + ranks[counted], *false_score[:false_boxes]]
        right += [1] * counted.sum() + [0] * false_boxes
        objects += (~difficult).sum()
    right = np.array(right)[np.argsort(scores)[::-1]]
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    highest = np.maximum.accumulate(precision[::-1])[::-1]
    return float(metric.value(iou_thresholds=0.5)["mAP"]), (highest * right).sum() / objects


def find_most(difficult, chance):
    return chance < 0.85


found = {
    "finds all but the difficult": measure(lambda difficult, chance: ~difficult),
    "finds all": measure(lambda difficult, chance: chance < 1),
    "finds most": measure(find_most, false_boxes=1),
    "finds most, truth in reverse": measure(find_most, false_boxes=1, turn=-1),
    "finds most, none is difficult": measure(find_most, share=0, false_boxes=1),
}
for name, (here, by_rules) in found.items():
    print(f"{name}: {here:.2f}, by the rules of VOC {by_rules:.2f}")
assert abs(np.subtract(*found.pop("finds most, none is difficult"))) < 1e-6
assert all(here < by_rules - 0.1 for here, by_rules in found.values()), "the behaviour changed"
assert found["finds all"][1] == found["finds all but the difficult"][1] == 1
assert found["finds most"][0] != found["finds most, truth in reverse"][0], "the behaviour changed"
PYTHON
