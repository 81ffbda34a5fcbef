#!/usr/bin/env bash
# Guess: xplique's white-box methods explain the layer that `output_layer` names; its documentation recommends the logits
#   instead of the softmax behind them, and a warning repeats it.
# Behaviour: with xplique 2.0.2 the argument changes nothing. Saliency, GradientInput, SmoothGrad and IntegratedGradients
#   with `output_layer="logits"` return, bit for bit, the maps of the softmax; those of the logits are others. The warning
#   that the chosen layer is a softmax does come, so the argument looks as if it were used.
# Cause: the constructor (xplique/attributions/base.py) builds the network up to that layer as a local variable after it
#   has stored the whole one in `self.model`, and `explain` differentiates `self.model`.
# Why it matters: gradients of a probability contain those of all other classes, and vanish where a network is sure. Papers
#   that say "of the logits, with xplique" have maps of the softmax.
# Versions: xplique 2.0.2, tensorflow-cpu 2.20.0, keras 3.15.1. `Grad-CAM`'s `conv_layer` is another argument, and works.
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
from xplique.attributions import GradientInput, IntegratedGradients, Saliency, SmoothGrad

keras.utils.set_random_seed(0)
images = np.random.default_rng(0).random((4, 16, 16, 3), np.float32)
classes = keras.utils.to_categorical([0, 1, 2, 3], 5)
start = keras.Input((16, 16, 3))
features = keras.layers.Flatten()(keras.layers.Conv2D(8, 3, activation="relu")(start))
logits = keras.layers.Dense(5, name="logits")(features)
network = keras.Model(start, keras.layers.Activation("softmax")(logits))
until_logits = keras.Model(start, logits)

for method, options in ((Saliency, {}), (GradientInput, {}), (IntegratedGradients, {}), (SmoothGrad, {})):
    maps = []
    for explained, layer in ((network, None), (network, "logits"), (until_logits, None)):
        tf.random.set_seed(1)
        maps.append(np.asarray(method(explained, output_layer=layer)(images, classes)))
    softmax, asked, true = maps
    scale = np.abs(true).max()
    print(f"{method.__name__}: asked for logits, away from softmax {np.abs(asked - softmax).max() / scale:.2f}, "
          f"from logits {np.abs(asked - true).max() / scale:.2f} of the largest value")
    assert np.array_equal(asked, softmax), "output_layer has an effect now"
    assert np.abs(asked - true).max() > 0.3 * scale
PYTHON
