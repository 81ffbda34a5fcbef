#!/usr/bin/env bash
# Guess: `SPOT_GreedySubsetSelection(C, weights, m)` of InterpretML chooses the m prototypes that lower the cost of transport
#   most, whatever the unit of the cost: costs times a constant give the same prototypes.
# Behaviour: with interpret-core 0.7.8 costs above 1,000,000 count as no cover at all. Of 200 photographs of four kinds, with
#   squared distances of pixels in bytes as costs, it chooses the images 0, 1, 2 and 3, all of the first kind, and says that
#   the first stands for 98.5 %; of the same pixels as shares (costs / 255²) one of each kind, for 25 % each.
# Cause: `currMinCostValues = np.ones((1, numX)) * 1000000` stands for infinity (interpret/utils/_SPOTgreedy.py), so no image
#   lowers the cost of any other, and `argmax` of equal gains is the first.
# Why it matters: squared distances of 32 x 32 colour images in bytes are 2 to 20 million. The answer is no error and no
#   warning, but always the first rows, which in a folder are one class; with some costs below the limit it is in between.
# Versions: interpret-core 0.7.8, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6, pandas 2.3.3, joblib 1.5.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q interpret-core==0.7.8 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 pandas==2.3.3 \
    joblib==1.5.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from itertools import product

import numpy as np
from interpret.utils import SPOT_GreedySubsetSelection
from sklearn.metrics import pairwise_distances

KINDS, OF_EACH = 4, 50
generator = np.random.default_rng(0)
pictures = generator.integers(40, 216, (KINDS, 3 * 32 * 32))
images = pictures.repeat(OF_EACH, 0) + generator.normal(0, 20, (KINDS * OF_EACH, 3 * 32 * 32))
images = images.round().clip(0, 255)
kinds = np.arange(KINDS).repeat(OF_EACH)
weights = np.full(len(images), 1 / len(images))


def choose_greedily(costs, number):
    chosen, cover = [], np.full(len(costs), np.inf)
    for _ in range(number):
        chosen.append(int(np.argmin(np.minimum(cover, costs).sum(1))))
        cover = np.minimum(cover, costs[chosen[-1]])
    return chosen


found = {}
for (name, scale), select in product({"bytes": 1, "shares": 255}.items(), ("InterpretML", "directly")):
    costs = pairwise_distances(images / scale, metric="sqeuclidean")
    if select == "directly":
        found[name, select] = choose_greedily(costs, KINDS)
    else:
        chosen, shares = SPOT_GreedySubsetSelection(costs, weights, KINDS)
        found[name, select] = chosen.tolist()
        print(f"{name}: costs up to {costs.max():.3g}; the shares {np.round(shares, 3)}")
    print(f"{name}, {select}: images {found[name, select]} of the kinds {kinds[found[name, select]].tolist()}")
right = found["shares", "directly"]
assert found["bytes", "directly"] == found["shares", "InterpretML"] == right and {*kinds[right]} == {0, 1, 2, 3}
assert found["bytes", "InterpretML"] == [0, 1, 2, 3], "the behaviour changed"
PYTHON
