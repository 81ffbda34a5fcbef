#!/usr/bin/env bash
# Guess: the columns AR 1, AR 10 and AR 100 that globox's COCO evaluation prints and saves for each class hold the average
#   recall of the class, and their mean is the total below them.
# Behaviour: with globox 2.9.0 they hold its average precision. A class of which all objects are found at their exact place,
#   among as many false boxes, has an AR 100 of .50 in `save_csv` and `show_summary`; its recall is 1.00, and so is the
#   total. The columns by size (AR S, M, L) and the totals are right.
# Cause: `ar_1`, `ar_10` and `ar_100` of both functions (globox/evaluation.py) read the key "ap" of the class.
# Why it matters: one reads in these columns which classes a detector misses. A class with many false boxes looks missed here,
#   and one that is missed and has no false boxes cannot be told from it.
# Versions: globox 2.9.0, numpy 2.4.6, rich 15.0.0, tqdm 4.70.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q globox==2.9.0 numpy==2.4.6 rich==15.0.0 tqdm==4.70.1
"$folder/venv/bin/python" -W ignore - "$folder/scores.csv" <<'PYTHON'
import csv
import sys

from globox import Annotation, AnnotationSet, BoundingBox, COCOEvaluator


def place(label, column, row, **confidence):
    left, top = 100 * column, 100 * row
    return BoundingBox(label=label, xmin=left, ymin=top, xmax=left + 40, ymax=top + 40, **confidence)


truth, found = AnnotationSet(), AnnotationSet()
for image in range(4):
    objects = [(label, column, 0) for column, label in enumerate(("cat", "cat", "dog", "dog"))]
    boxes = [place(*where, confidence=0.5) for where in objects]
    boxes += [place("cat", column, 1, confidence=0.9) for column in range(2)]  # nothing is there
    truth.add(Annotation(f"image {image}", (400, 400), [place(*where) for where in objects]))
    found.add(Annotation(f"image {image}", (400, 400), boxes))
evaluator = COCOEvaluator(ground_truths=truth, predictions=found)
evaluator.save_csv(sys.argv[1])
with open(sys.argv[1]) as lines:
    rows = {row["label"]: row for row in csv.DictReader(lines)}
by_class = evaluator.ndets_100_evaluation()
for label, row in rows.items():
    saved, precision, recall = float(row["AR 100"]), by_class[label]["ap"], by_class[label]["ar"]
    medium = float(row["AR M"])
    print(f"{label}: AR 100 {saved:.2f}, recall {recall:.2f}, precision {precision:.2f}; AR M {medium:.2f}")
    assert recall == medium == 1, "all objects are found"
    assert abs(saved - precision) < 1e-9, "the behaviour changed"
print(f"total: {evaluator.ar_100():.2f}")
assert float(rows["cat"]["AR 100"]) < 0.6 and evaluator.ar_100() == 1, "the behaviour changed"
PYTHON
