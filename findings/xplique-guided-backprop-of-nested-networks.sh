#!/usr/bin/env bash
# Guess: xplique's GuidedBackprop and DeconvNet change every ReLU of a Keras network, so maps do not depend on how its
#   layers are grouped.
# Behaviour: with xplique 2.0.2 only layers of the outermost network are changed. If the convolutions are a network used as
#   a layer, as in Keras' guide to transfer learning (`base_model(inputs)`), both methods return the plain gradient, signs
#   and all, without a word. The same layers called one by one have other maps.
# Cause: `override_relu_gradient` (xplique/commons/model_override.py) goes through `model.layers`, which has a nested network
#   as one layer without an activation.
# Why it matters: fine-tuned Keras networks are nested more often than not. A comparison of guided backpropagation with the
#   gradient then compares the gradient with itself, and finds that they agree.
# Versions: xplique 2.0.2, tensorflow-cpu 2.20.0, keras 3.15.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tensorflow-cpu==2.20.0 keras==3.15.1 numpy==2.4.6 scipy==1.15.3 scikit-learn==1.7.2 \
  scikit-image==0.25.2 matplotlib==3.10.9 einops==0.8.2 deprecated==1.3.1 opencv-python-headless==5.0.0.93 \
  decorator==5.3.1 cloudpickle==3.1.2 dm-tree==0.1.10
# without the CUDA libraries that xplique declares
"$folder/venv/bin/pip" install -q --no-deps xplique==2.0.2 tensorflow-probability==0.25.0 tf-keras==2.20.1
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" -W ignore - 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import keras
import numpy as np
import tensorflow as tf
from xplique.attributions import DeconvNet, GuidedBackprop

keras.utils.set_random_seed(0)
images = np.random.default_rng(0).random((4, 16, 16, 3), np.float32)
classes = keras.utils.to_categorical([0, 1, 2, 3], 5)
start = keras.Input((16, 16, 3))
maps = keras.layers.Conv2D(8, 3, activation="relu")(keras.layers.Conv2D(8, 3, activation="relu")(start))
base = keras.Model(start, keras.layers.Flatten()(maps))
head = keras.layers.Dense(5)
image = keras.Input((16, 16, 3))
nested = keras.Model(image, head(base(image)))
flat = keras.Model(start, head(base.output))
np.testing.assert_array_equal(nested(images), flat(images))  # the same function, the same weights

with tf.GradientTape() as tape:
    variable = tf.Variable(images)
    score = tf.reduce_sum(nested(variable) * classes)
gradient = tape.gradient(score, variable).numpy()
for method in (GuidedBackprop, DeconvNet):
    of_nested, of_flat = (np.asarray(method(one, reducer=None)(images, classes)) for one in (nested, flat))
    correlation = np.corrcoef(of_flat.ravel(), gradient.ravel())[0, 1]
    print(f"{method.__name__}: nested, away from the gradient {np.abs(of_nested - gradient).max():.1e}; "
          f"flat, correlation with the gradient {correlation:.2f}")
    np.testing.assert_allclose(of_nested, gradient, atol=1e-6, err_msg="nested networks are changed now")
    assert correlation < 0.95
PYTHON
