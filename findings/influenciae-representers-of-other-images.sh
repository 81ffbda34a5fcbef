#!/usr/bin/env bash
# Guess: `RepresenterPointL2` of Influenciae is representer point selection (Yeh et al. 2018): a training image's
#   influence on a test image is the training image's alpha, for the predicted class, times the product of both images'
#   features, and alpha is the gradient of the loss in the logits, over -2 λ n.
# Behaviour: with Influenciae 0.3.0 the alpha is that of another image. Of a batch of 16 training and 16 test images,
#   the influence of training image i on test image j has the alpha of training image j, so all influences on a test
#   image are the plain products of features times one number: their order knows nothing of labels, and all have one
#   sign; 60 % have the right one. The correlation with the right influences is .06. Batches of different sizes end in
#   an error. Each alpha is, besides, multiplied by the number of features that are not 0 behind the last ReLU, here 5
#   to 11 of 16.
# Cause: `_estimate_influence_value_from_influence_vector` (rps/base_representer_point.py) gathers with `batch_dims=1`,
#   which pairs the k-th training image with the k-th test image, and broadcasts the result along the test images.
#   `_compute_alpha` (rps/rps_l2.py) divides the gradient of the weights by the features and adds up, where one is
#   enough.
# Why it matters: representers explain a prediction by training images that speak for and against it. Here one sign
#   holds for all images of similar features, and images with many active features have larger self-influence.
# Versions: Influenciae 0.3.0, tensorflow-cpu 2.15.1, matplotlib 3.10.9, numpy 1.26.4. Influenciae asks for TensorFlow
#   2.7 to 2.9, which have no builds for Python 3.11; both functions are plain arithmetic.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tensorflow-cpu==2.15.1 matplotlib==3.10.9 numpy==1.26.4
"$folder/venv/bin/pip" install -q --no-deps Influenciae==0.3.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" -W ignore - 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import numpy as np
import tensorflow as tf
from deel.influenciae.rps import RepresenterPointL2

tf.keras.utils.set_random_seed(0)
generator = np.random.default_rng(0)
images, test_images = generator.normal(size=(2, 16, 6)).astype("float32")
labels, test_labels = np.eye(3, dtype="float32")[generator.integers(0, 3, (2, 16))]
loss = tf.keras.losses.CategoricalCrossentropy(from_logits=True, reduction=tf.keras.losses.Reduction.NONE)
dense = tf.keras.layers.Dense
network = tf.keras.Sequential([tf.keras.Input((6,)), dense(16, activation="relu"), dense(3, use_bias=False)])
network.compile(loss=loss)
train = tf.data.Dataset.from_tensor_slices((images, labels)).batch(16)
test = tf.data.Dataset.from_tensor_slices((test_images, test_labels)).batch(16)
representer = RepresenterPointL2(network, train, loss, lambda_regularization=0.1, epochs=20)

features, test_features = (np.maximum(each @ network.layers[0].get_weights()[0], 0) for each in (images, test_images))
logits = features @ representer.linear_layer.get_weights()[0]
probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
alphas = (probabilities - labels) / (-2 * 0.1 * 16)
active = (features > 0).sum(1)
predicted = network(test_images).numpy().argmax(1)
products = test_features @ features.T  # a row for each test image
right = alphas[:, predicted].T * products
shown = (active[:, None] * alphas)[np.arange(16), predicted][:, None] * products

found = np.concatenate(
    [
        values.numpy()
        for _, influences in representer.estimate_influence_values_in_batches(test, train)
        for _, values in influences
    ]
)
same_sign = np.mean((found > 0) == (right > 0))
alike = np.corrcoef(found.ravel(), right.ravel())[0, 1]
print(f"{active.min()} to {active.max()} features are active; r = {alike:.2f}")
print(f"{same_sign:.0%} of the influences have the right sign")
one_sign = np.mean([len(set(np.sign(row[np.abs(row) > 1e-6]))) == 1 for row in found])
print(f"all influences have one sign for {one_sign:.0%} of test images")
assert (np.sign(right) != np.sign(right[:, :1])).any(1).all(), "right influences have one sign, too"
np.testing.assert_allclose(found, shown, rtol=2e-3, atol=2e-3, err_msg="the behaviour changed")
PYTHON
