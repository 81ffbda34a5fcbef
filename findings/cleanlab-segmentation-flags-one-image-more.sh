#!/usr/bin/env bash
# Guess: `issues_from_scores` of cleanlab's segmentation module returns the images whose label quality is below the threshold
#   ("falls below the `threshold`"): none if all are above, as the functions of this name for detection and for text do.
# Behaviour: with cleanlab 2.9.0 it returns one image more, the best of those above. Of three images with the scores .90, .95 and
#   .99 the first is an issue at a threshold of .1; of .05, .20 and .90 two are. Its masks of pixels are right.
# Cause: the ranking is cut at `cutoff + 1` (cleanlab/segmentation/rank.py), and `cutoff` already counts the scores below.
# Why it matters: the list is what is relabelled or left out. A clean data set is never called clean: cleaned until nothing is
#   found, it loses one right image with each pass.
# Versions: cleanlab 2.9.0, scikit-learn 1.9.1, numpy 2.4.6, pandas 3.1.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q cleanlab==2.9.0 scikit-learn==1.9.1 numpy==2.4.6 pandas==3.1.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from cleanlab.object_detection.rank import issues_from_scores as find_in_boxes
from cleanlab.segmentation.rank import get_label_quality_scores, issues_from_scores
from cleanlab.token_classification.rank import issues_from_scores as find_in_texts

for scores, below in (([0.9, 0.95, 0.99], []), ([0.05, 0.2, 0.9], [0]), ([0.9, 0.01, 0.02, 0.3], [1, 2])):
    images, boxes, texts = (find(np.array(scores)).tolist() for find in (issues_from_scores, find_in_boxes, find_in_texts))
    print(f"scores {scores}: images {images}, detection {boxes}, text {texts}")
    assert boxes == texts == below
    assert len(images) == len(below) + 1 and images[: len(below)] == below, "the behaviour changed"

generator = np.random.default_rng(0)
labels = generator.integers(0, 3, (20, 16, 16))
probabilities = np.full((20, 3, 16, 16), 0.01)
np.put_along_axis(probabilities, labels[:, None], 0.98, 1)  # the network agrees with each pixel
kept = np.arange(20)
for step in range(5):
    scores, pixels = get_label_quality_scores(labels[kept], probabilities[kept], verbose=False)
    assert scores.min() > 0.9 and not issues_from_scores(scores, pixels).any()
    kept = np.delete(kept, issues_from_scores(scores))
print(f"right images left after five passes of cleaning: {len(kept)} of 20")
assert len(kept) == 15, "the behaviour changed"
PYTHON
