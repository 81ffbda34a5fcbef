#!/usr/bin/env bash
# Guess: xplique's randomised networks, for the check of Adebayo et al. (2018), are what an untrained network is: weights of
#   both signs from an initialiser.
# Behaviour: with xplique 2.0.2 all weights are uniform in [0, 1). Images are at least 0, so no ReLU ever cuts: a network of
#   convolutions, ReLUs and dense layers is one linear function with positive coefficients. Its gradient is the same for all
#   images of a class, and correlates at .99 between classes; input x gradient correlates at .61 with the image; one class is
#   predicted for every image. Freshly initialised, the same network has .45, .01 and .00, and predicts four classes.
# Cause: `ProgressiveLayerRandomization.randomize` (xplique/metrics/randomization.py) calls `tf.random.uniform` with its
#   defaults, 0 and 1. `ModelRandomizationMetric` uses it unless it is given another strategy.
# Why it matters: the check asks whether a map changes when a network forgets. Here the network turns into a filter of the
#   image: input x gradient "fails" because its map becomes the image, and the gradient "passes" with a map in which no
#   image has any part.
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
from xplique.metrics.randomization import ProgressiveLayerRandomization

generator = np.random.default_rng(0)
images = generator.random((20, 16, 16, 3), np.float32)
classes = keras.utils.to_categorical(np.arange(20) % 5, 5)


def make_network():
    keras.utils.set_random_seed(0)
    start = keras.Input((16, 16, 3))
    maps = keras.layers.Conv2D(8, 3, activation="relu")(start)
    maps = keras.layers.Conv2D(8, 3, activation="relu")(maps)
    return keras.Model(start, keras.layers.Dense(5)(keras.layers.Flatten()(maps)))


found = {}
for name, network in (("fresh", make_network()), ("randomised", ProgressiveLayerRandomization(1.0).randomize(make_network()))):
    variable = tf.Variable(images)
    with tf.GradientTape() as tape:
        outputs = network(variable)
        score = tf.reduce_sum(outputs * classes)
    gradient = tape.gradient(score, variable).numpy()
    same = np.mean([np.corrcoef(gradient[i].ravel(), gradient[i + 5].ravel())[0, 1] for i in range(15)])
    other = np.mean([np.corrcoef(gradient[i].ravel(), gradient[i + 1].ravel())[0, 1] for i in range(15)])
    shown = np.mean([np.corrcoef((gradient * images)[i].ravel(), images[i].ravel())[0, 1] for i in range(20)])
    predicted = len({*outputs.numpy().argmax(1).tolist()})
    negative = np.mean(np.concatenate([weight.numpy().ravel() for weight in network.weights]) < 0)
    found[name] = same, other, shown
    print(f"{name}: gradients of two images of one class correlate at {same:.3f}, of two classes at {other:.3f}; input x "
          f"gradient with the image at {shown:.2f}; {predicted} classes predicted; weights below 0: {negative:.0%}")
    assert (negative == 0) == (name == "randomised"), "weights have both signs now"
assert found["randomised"][0] > 0.9999 and found["randomised"][1] > 0.9 and found["randomised"][2] > 0.5
assert found["fresh"][0] < 0.7 and abs(found["fresh"][2]) < 0.2
PYTHON
