#!/usr/bin/env bash
# Guess: the KernelSHAP map of dianna colours each segment of an image by that segment's own Shapley value.
# Behaviour: with dianna 1.8.1 each segment has the value of the segment before it in the order of their numbers. A
#   network that reads the upper left quarter alone has a map that is bright in the upper right quarter. Values of the
#   last segment are lost: it is never hidden. Here nine segments of a linear network have exactly the right values, each
#   one place late; the map correlates by .04 with the right one. The sum is wrong by the last segment's share.
# Cause: `slic` of scikit-image numbers segments from 1 (`start_label`), `_mask_image` hides segment j for feature j from
#   0 on, and `_create_heatemaps` reads feature `index - 1` (dianna/methods/kernelshap_image.py).
# Why it matters: maps look like evidence on a neighbouring part of the picture. With 100 segments nobody sees the shift,
#   and KernelSHAP loses to any other estimator in a comparison of removed pixels.
# Versions: dianna 1.8.1, shap 0.51.0, scikit-image 0.26.0, onnx 1.23.2, onnxruntime 1.32.0, numpy 2.4.6. Mended in an
#   open request: https://github.com/dianna-ai/dianna/pull/898.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q shap==0.51.0 scikit-image==0.26.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6 \
  xarray==2026.9.0
"$folder/venv/bin/pip" install -q --no-deps dianna==1.8.1
cd "$folder"
TQDM_DISABLE=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import onnx
from dianna.methods.kernelshap_image import KERNELSHAPImage
from onnx import TensorProto, helper, numpy_helper


def explain(weights, image, n_segments):
    """Explain a linear network: one logit is the sum of weight times pixel, the other is its negative."""
    side = len(image)
    matrix = np.stack([weights.ravel(), -weights.ravel()], 1).astype(np.float32)
    shapes = {"pixels": ["n", 1, side, side], "logits": ["n", 2]}
    inputs, outputs = ([helper.make_tensor_value_info(key, TensorProto.FLOAT, shapes[key])] for key in shapes)
    tensors = [numpy_helper.from_array(np.array([-1, side**2]), "shape"), numpy_helper.from_array(matrix, "matrix")]
    nodes = [
        helper.make_node("Reshape", ["pixels", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "matrix"], ["logits"]),
    ]
    graph = helper.make_graph(nodes, "linear", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "linear.onnx")
    explainer = KERNELSHAPImage()
    settings = {"labels": [0, 1], "background": 0, "n_segments": n_segments}
    found = explainer.explain("linear.onnx", image[None].astype(np.float32), **settings)[0]
    segments = explainer.image_segments
    right = np.zeros_like(found)
    for number in np.unique(segments):
        right[segments == number] = (weights * image)[segments == number].sum()
    return found, right, segments


quarters = np.kron(np.array([[1.0, 0.2], [0.4, 0.6]]), np.ones((16, 16)))
weights = np.zeros((32, 32))
weights[:16, :16] = 1 / 256
found, right, segments = explain(weights, quarters, 4)
print(f"network of the upper left quarter: its map is {found[::16, ::16].round(2).tolist()}")
np.testing.assert_allclose(found[::16, ::16], [[0, 1], [0, 0]], atol=1e-4, err_msg="the behaviour changed")

random = np.random.default_rng(0)
nine = np.kron(random.permutation(np.linspace(0.1, 1, 9)).reshape(3, 3), np.ones((12, 12)))
found, right, segments = explain(np.kron(random.normal(size=(3, 3)) / 144, np.ones((12, 12))), nine, 9)
values, truth = found[6::12, 6::12].ravel(), right[6::12, 6::12].ravel()
order = segments[6::12, 6::12].ravel()
print(f"nine segments, numbers {order.tolist()}: found {values.round(2).tolist()}, right {truth.round(2).tolist()}")
correlation = np.corrcoef(values, truth)[0, 1]
print(f"correlation with the right map {correlation:.2f}; sums {values.sum():.2f}, {truth.sum():.2f}")
assert sorted(order) == list(range(1, 10)), "the segments changed"
late = np.r_[0, truth[np.argsort(order)][:-1]]
np.testing.assert_allclose(values[np.argsort(order)], late, atol=1e-4, err_msg="the behaviour changed")
PYTHON
