#!/usr/bin/env bash
# Guess: `mean_average_precision_for_boxes` of map-boxes matches the boxes of an image by falling confidence, so the order of
#   the rows of a table means nothing; and images with detections and no annotation count against a network, unless
#   `exclude_not_in_annotations=True` leaves them out.
# Behaviour: with map-boxes 1.0.6 the same detections have an average precision of 1.00 or .50, by their order: the first row
#   that overlaps an object takes it, and a better one behind is a false positive. Ten false boxes on an image without
#   objects change nothing, with either value of the option. pycocotools has 1.00, and .50 with the false boxes.
# Cause: the loop over detections of an image (map_boxes/__init__.py) sorts only after the match, and runs over the images
#   of the annotations alone. keras-retinanet, which it names as its source, sorts each image's boxes before.
#   The fault of the order is known in other programs, e.g. https://github.com/JdeRobot/PerceptionMetrics/issues/544.
# Why it matters: it is the metric of several competitions' notebooks. Tables that were merged from two networks, or sorted by
#   class or by place, have a lower score than the same boxes sorted by confidence, and boxes in empty images are free.
# Versions: map-boxes 1.0.6, pycocotools 2.0.11, numpy 2.4.6, pandas 3.1.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q map-boxes==1.0.6 pycocotools==2.0.11 numpy==2.4.6 pandas==3.1.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import contextlib
import io

import numpy as np
from map_boxes import mean_average_precision_for_boxes
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

# Image, class, left, right, top and bottom; detections have a confidence in the third place.
objects = [[f"image {number}", "cat", 10, 50, 10, 50] for number in range(10)]
exact = [[image, name, 0.9, *box] for image, name, *box in objects]
loose = [[image, name, 0.3, 10, 50, 10, 40] for image, name, *_ in objects]
elsewhere = [["an empty image", "cat", 0.95, 10 * k, 10 * k + 8, 0, 8] for k in range(10)]


def score(detections, **options):
    tables = np.array(objects, object), np.array(detections, object)
    return mean_average_precision_for_boxes(*tables, verbose=False, **options)[0]


def score_by_coco(detections):
    images = [row[0] for row in objects] + ["an empty image"]

    def describe(number, image, left, right, top, bottom):
        box = [left, top, right - left, bottom - top]
        common = {"category_id": 1, "iscrowd": 0, "area": box[2] * box[3]}
        return {"id": number, "image_id": images.index(image), "bbox": box, **common}

    truth = COCO()
    truth.dataset = {
        "images": [{"id": number} for number in range(len(images))],
        "categories": [{"id": 1}],
        "annotations": [describe(k, image, *box) for k, (image, _, *box) in enumerate(objects, 1)],
    }
    truth.createIndex()
    found = [{**describe(k, image, *box), "score": share} for k, (image, _, share, *box) in enumerate(detections, 1)]
    evaluation = COCOeval(truth, truth.loadRes(found), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation.stats[1]  # at an intersection over union of .5


for name, detections, by_order in (
    ("confident boxes first", exact + loose, 1),
    ("confident boxes last", loose + exact, 0.5),
    ("and ten false boxes", exact + loose + elsewhere, 1),
):
    with contextlib.redirect_stdout(io.StringIO()):
        right = score_by_coco(detections)
    given = score(detections), score(detections, exclude_not_in_annotations=True)
    print(f"{name}: {given[0]:.2f}, annotated images alone {given[1]:.2f}, pycocotools {right:.2f}")
    assert abs(given[0] - by_order) < 1e-9 and given[0] == given[1], "the behaviour changed"
    assert abs(right - (0.5 if len(detections) == 30 else 1)) < 1e-9
PYTHON
