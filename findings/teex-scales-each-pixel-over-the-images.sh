#!/usr/bin/env bash
# Guess: `saliency_map_scores(masks, maps)` of teex gives for several images the scores that each image has alone, or their
#   mean, and leaves the maps as they are. The AUC of one image does not depend on the unit of its map.
# Behaviour: with teex 1.0.3 maps with values above 1 are scaled pixel by pixel: a pixel's values in all images are mapped to
#   [0, 1]. The order of the pixels within an image is lost. Twenty maps, each of which ranks the whole object above all other
#   pixels, have AUC 1.0 one by one, and 0.50 on average together; divided by their maximum before, they have 1.0. The
#   caller's maps hold the scaled values afterwards.
# Cause: `saliency_map_scores` passes a matrix of images by pixels; `scale_fi_bounds` (teex/featureImportance/data.py) scales
#   each column, in place, as if columns were images.
# Why it matters: the mean AUC over a data set is what the function is for, and the more images there are, the nearer it is
#   to chance, for good and bad methods alike. Maps drawn after the call are not those that were made.
# Versions: teex 1.0.3, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6, sympy 1.14.0, tqdm 4.70.1,
#   opencv-python-headless 5.0.0.93, pillow 12.0.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps teex==1.0.3
"$folder/venv/bin/pip" install -q scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 sympy==1.14.0 tqdm==4.70.1 \
    opencv-python-headless==5.0.0.93 pillow==12.0.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from sklearn.metrics import roc_auc_score
from teex.saliencyMap.eval import saliency_map_scores

IMAGES, SIDE = 20, 32
generator = np.random.default_rng(0)
masks = np.zeros((IMAGES, SIDE, SIDE))
masks[:, 8:24, 8:24] = 1  # objects in the middle of each photograph
maps = np.where(masks == 1, generator.uniform(5, 20, masks.shape), generator.uniform(0, 4, masks.shape))


def score(maps):
    return float(saliency_map_scores(masks.copy(), maps, metrics="auc")[0])


alone = [float(saliency_map_scores(mask, one.copy(), metrics="auc")) for mask, one in zip(masks, maps, strict=True)]
given = maps.copy()
together, in_shares = score(given), score(maps / maps.max())
print(f"one by one: {np.mean(alone):.2f}; together: {together:.2f}; together, maps divided by their maximum: {in_shares:.2f}")
assert np.mean(alone) == in_shares == roc_auc_score(masks[0].ravel(), maps[0].ravel()) == 1
assert abs(together - 0.5) < 0.03 and given.max() <= 1 < maps.max(), "the behaviour changed"
PYTHON
