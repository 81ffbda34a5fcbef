#!/usr/bin/env bash
# Guess: LIME for images hides a superpixel behind one colour of the whole image, or behind black or grey, so a flat
#   superpixel that decides the prediction has a weight.
# Behaviour: with lime 0.2.0.1 and `hide_color=None` each superpixel is replaced by its own mean. A flat superpixel hides
#   nothing: an image of two flat halves gives twenty equal samples and weights of 0. With `hide_color=0` the bright half
#   decides, as it does in the network.
# Cause: `np.mean(image[segments == x][:, 0])` for each x in `LimeImageExplainer.explain_instance` (lime/lime_image.py);
#   the docstring says "TODO" about `hide_color`.
# Why it matters: the better the segments follow areas of one colour, the less LIME removes. The fill decides the result.
# Versions: lime 0.2.0.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q lime==0.2.0.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PYTHON'
import numpy as np
from lime.lime_image import LimeImageExplainer

image = np.full((8, 8, 3), 0.2)
image[:, 4:] = 0.8
for fill in (None, 0):
    seen = []

    def classify(images):
        seen.append(images.reshape(len(images), -1).round(9))
        brightness = images.mean((1, 2, 3))
        return np.stack([1 - brightness, brightness], 1)

    explanation = LimeImageExplainer(random_state=0).explain_instance(
        image,
        classify,
        hide_color=fill,
        num_samples=20,
        segmentation_fn=lambda image: np.tile(np.repeat([0, 1], 4), (8, 1)),
    )
    weights = dict(explanation.local_exp[1])
    samples = len(np.unique(np.concatenate(seen), axis=0))
    print(f"hide_color={fill}: {samples} different samples, weights {weights[0]:.2f} (dark), {weights[1]:.2f} (bright)")
    assert (samples == 1 and weights[1] == 0) == (fill is None), "the behaviour changed"
PYTHON
