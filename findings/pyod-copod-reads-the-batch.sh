#!/usr/bin/env bash
# Guess: `decision_function` of a fitted PyOD detector scores each image against the training images, so an image has
#   one score, alone or in a batch, and a clear outlier stays one.
# Behaviour: with PyOD 3.6.7 scores of COPOD and ECOD depend on the other images of the call. An image at 4 standard
#   deviations in each of four columns has 18.6 alone, 22.9 among 200 normal ones, and 5.0 among 200 copies of itself,
#   below the threshold of 7.5: `predict` calls none of the copies an outlier. COPOD's and ECOD's training scores are as
#   they should be, so nothing shows while test sets are small. KNN, IForest and HBOS read no batch.
# Cause: `decision_function` (pyod/models/copod.py, ecod.py) appends the images to the training images and takes
#   empirical tails and skewness of both together.
# Why it matters: the larger and the more shifted a test set, the less is found, which is where detection is needed;
#   AUROC over a test set and scores in batches of a loader are different numbers.
# Versions: pyod 3.6.7, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pyod==3.6.7 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from pyod.models.copod import COPOD
from pyod.models.ecod import ECOD
from pyod.models.hbos import HBOS
from pyod.models.iforest import IForest
from pyod.models.knn import KNN

generator = np.random.default_rng(0)
train, normal = generator.normal(size=(500, 4)), generator.normal(size=(200, 4))
outlier = np.full((1, 4), 4.0)
for detector in (COPOD(), ECOD(), KNN(), IForest(random_state=0), HBOS()):
    detector.fit(train)
    alone = detector.decision_function(outlier)[0]
    among = detector.decision_function(np.vstack([outlier, normal]))[0]
    copies = np.repeat(outlier, 200, axis=0)
    crowd = detector.decision_function(copies)[0]
    name = type(detector).__name__
    print(f"{name}: {alone:.1f} alone, {among:.1f} among normal ones, {crowd:.1f} among copies", end="")
    print(f"; threshold {detector.threshold_:.1f}; outliers of 200 copies: {detector.predict(copies).sum()}")
    reads = name in ("COPOD", "ECOD")
    assert np.isclose(alone, among) != reads and np.isclose(alone, crowd) != reads, "the behaviour changed"
    assert alone > detector.threshold_ and (crowd < detector.threshold_) == reads, "the behaviour changed"
# by hand: the outlier is the largest value of each column, so its right tail is the share of copies in all images
by_hand = 4 * -np.log(200 / 700)
assert np.isclose(COPOD().fit(train).decision_function(copies)[0], by_hand), "the behaviour changed"
PYTHON
