#!/usr/bin/env bash
# Guess: tf-explain's `IntegratedGradients` is the method of the paper that it names: attributions sum to the difference of
#   the scores of image and black image, and a black pixel has none.
# Behaviour: with tf-explain 0.3.1 the gradients on the path are averaged and not multiplied by the image. For a linear
#   network the map is the weights, bit for bit the gradient, whatever the image: it sums to 400 where the scores differ by
#   99, and the black half of an image gets more than the other half.
# Cause: `get_integrated_gradients` (tf_explain/core/integrated_gradients.py) returns the mean over the steps; the factor
#   (image - baseline) stands nowhere. `explain` then takes absolute values.
# Why it matters: comparisons of integrated gradients with the gradient, made by this package, compare two gradients, one
#   of them smoothed along a path. Completeness, for which the method is chosen, does not hold.
# Versions: tf-explain 0.3.1, tensorflow-cpu 2.20.0, keras 3.15.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tensorflow-cpu==2.20.0 keras==3.15.1 numpy==2.4.6 opencv-python-headless==5.0.0.93
"$folder/venv/bin/pip" install -q --no-deps tf-explain==0.3.1
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" -W ignore - 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import keras
import numpy as np
from tf_explain.core import IntegratedGradients

generator = np.random.default_rng(0)
weights, image = (generator.random((16, 16, 3)).astype(np.float32) for _ in range(2))
image[:8] = 0
start = keras.Input((16, 16, 3))
layer = keras.layers.Dense(2, use_bias=False)
network = keras.Model(start, layer(keras.layers.Flatten()(start)))
layer.set_weights([np.stack([weights.ravel(), -weights.ravel()], 1)])

method = IntegratedGradients()
path = method.generate_interpolations(image[None], 10)
found = method.get_integrated_gradients(path, network, 0, 10).numpy()[0]
difference = float(network(image[None])[0, 0])  # the black image has the score 0
shown = method.explain((image[None], None), network, 0)
print(f"sum {found.sum():.0f}, scores differ by {difference:.0f}; largest distance from the weights "
      f"{np.abs(found - weights).max():.1e}; shown in the black half {shown[:8].mean():.0f}, in the other {shown[8:].mean():.0f}")
np.testing.assert_allclose(found, weights, atol=1e-6, err_msg="the image counts now")
assert abs((weights * image).sum() - difference) < 0.01 * difference < abs(found.sum() - difference)
assert shown[:8].mean() > 50
PYTHON
