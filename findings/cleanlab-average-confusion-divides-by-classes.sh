#!/usr/bin/env bash
# Guess: `get_average_per_class_confusion_matrix` of cleanlab gives, for each class of a detector, the true positives, false
#   positives and missed objects at an average of the ten thresholds of COCO; of exact boxes all objects are true positives.
# Behaviour: with cleanlab 2.9.0 it gives that divided by the number of classes. Of 30 cats, all of them found exactly, 15 are
#   true positives with two classes, 6 with five and .375 with 80; false positives and missed objects shrink alike.
# Cause: the sums are divided by `len(iou_thrs) * len(results_dict)` (cleanlab/object_detection/summary.py); the second factor
#   is the number of classes. Precision and recall, ratios of these numbers, are right.
# Why it matters: the numbers are read as counts of objects. Beside 30 cats 6 found ones say that the detector misses most,
#   and counts of two data sets, or before and after two classes were joined, do not compare.
# Versions: cleanlab 2.9.0, scikit-learn 1.9.1, numpy 2.4.6, pandas 3.1.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q cleanlab==2.9.0 scikit-learn==1.9.1 numpy==2.4.6 pandas==3.1.1
cat >"$folder/score.py" <<'PYTHON'
import numpy as np
from cleanlab.object_detection.summary import calculate_per_class_metrics, get_average_per_class_confusion_matrix


def main():
    boxes = np.array([[10 * k, 10, 10 * k + 8, 18] for k in range(3)], float)
    for classes in (1, 2, 5, 80):
        nothing = np.zeros((0, 5))
        labels = [{"bboxes": boxes, "labels": np.zeros(3, int)} for _ in range(10)]
        found = np.hstack([boxes, np.full((3, 1), 0.9)])
        predictions = []
        for _ in labels:
            by_class = np.empty(classes, object)
            by_class[:] = [found] + [nothing] * (classes - 1)
            predictions.append(by_class)
        counts = get_average_per_class_confusion_matrix(labels, predictions)[0]
        recall = calculate_per_class_metrics(labels, predictions)[0]["average recall"]
        print(f"{classes} classes: 30 cats, all found; {counts['TP']:.3f} true positives, recall {recall:.2f}")
        assert abs(recall - 1) < 1e-9 and counts["FP"] == counts["FN"] == 0
        assert abs(counts["TP"] - 30 / classes) < 1e-9, "the behaviour changed"


if __name__ == "__main__":  # it starts processes
    main()
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/score.py"
