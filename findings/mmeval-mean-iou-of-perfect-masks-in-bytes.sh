#!/usr/bin/env bash
# Guess: `MeanIoU` of mmeval gives perfect masks 1, whether their class numbers are bytes (uint8), as Pillow and OpenCV read
#   them from PNG files, or int64; a type that it cannot use is refused.
# Behaviour: with mmeval 0.2.1 perfect masks of 21 classes have a mean IoU of .35 and an accuracy of .57 as bytes, those of 16
#   classes 1. Of 30 % random pixels the network keeps .56 as int64 and .19 as bytes. The last classes have an IoU of 0 or
#   none: the mean leaves some of them out.
# Cause: `compute_confusion_matrix` (mmeval/metrics/mean_iou.py) adds `num_classes * label` and the prediction in their own
#   type, modulo 256 for bytes. The place of a pixel is right up to 256 cells, which are 16 classes.
# Why it matters: Pascal VOC has 21 classes, Cityscapes 19, ADE20K 150, and their masks are bytes, with 255 as the class to
#   ignore, which is the default here. Nothing but a division by 0 is named, and that only if classes are lost altogether.
# Versions: mmeval 0.2.1, numpy 2.4.6, opencv-python-headless 5.0.0.93, scikit-learn 1.8.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 scipy==1.17.1 opencv-python-headless==5.0.0.93 plum-dispatch==1.7.4 \
    PyYAML==6.0.4 rich==15.0.0 scikit-learn==1.8.0
"$folder/venv/bin/pip" install -q --no-deps mmeval==0.2.1 # it names the OpenCV with windows
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from mmeval import MeanIoU
from sklearn.metrics import jaccard_score

generator = np.random.default_rng(0)
for classes in (16, 19, 21, 150):
    truth = generator.integers(0, classes, (8, 64, 64))
    noisy = np.where(generator.random(truth.shape) < 0.3, generator.integers(0, classes, truth.shape), truth)
    for name, mask in (("perfect", truth), ("30 % random", noisy)):
        direct = jaccard_score(truth.ravel(), mask.ravel(), average="macro")
        wide, narrow = (
            MeanIoU(num_classes=classes, classwise_results=True)(mask.astype(kind), truth.astype(kind))
            for kind in (np.int64, np.uint8)
        )
        lost = int((np.nan_to_num(narrow["classwise_results"]["IoU"]) == 0).sum())
        print(f"{classes} classes, {name}: scikit-learn {direct:.2f}, int64 {wide['mIoU']:.2f}, bytes {narrow['mIoU']:.2f} "
              f"(accuracy {narrow['aAcc']:.2f}, {lost} classes without a hit)")
        assert abs(wide["mIoU"] - direct) < 1e-9
        assert (abs(narrow["mIoU"] - direct) < 1e-9) == (classes == 16), "the behaviour changed"
        assert classes == 16 or narrow["mIoU"] < 0.8 * direct and lost > 0, "the behaviour changed"
PYTHON
