#!/usr/bin/env bash
# Guess: `onnx2torch.convert` of a network with `torch.cumsum`, exported to ONNX, gives back the cumulative sum, or
#   refuses it.
# Behaviour: with onnx2torch 1.5.15 the sum runs from the end: [1, 2, 3, 4] becomes [10, 9, 7, 4] instead of [1, 3, 6,
#   10], in each opset, while ONNX Runtime and ONNX's own reference add up from the start. A node that says `reverse=0`
#   is right, so tests with all attributes written out pass.
# Cause: the converter (onnx2torch/node_converters/cumsum.py) takes 1 as the default of `reverse`; the standard's is 0,
#   and exporters leave defaults out.
# Why it matters: cumulative sums number the positions of tokens (RoBERTa), turn ordinal heads and histograms into
#   probabilities and place boxes. The converted network runs and trains, its maps and accuracies are those of another
#   network.
# Versions: onnx2torch 1.5.15, onnx 1.23.2, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q onnx2torch==1.5.15 onnx==1.23.2 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from onnx2torch import convert

numbers = np.array([[1, 2, 3, 4]], dtype=np.float32)


def make_network(version, **attributes):
    """Return a network that adds up along axis 1."""
    node = helper.make_node("CumSum", ["x", "axis"], ["y"], **attributes)
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    axis = numpy_helper.from_array(np.array(1), "axis")
    graph = helper.make_graph([node], "sums", tensors[:1], tensors[1:], [axis])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    network.ir_version = 8
    onnx.checker.check_model(network)
    return network


for version in (11, 13, 14, 17):
    for attributes in ({}, {"reverse": 0}, {"reverse": 1}):
        network = make_network(version, **attributes)
        found = convert(network)(torch.tensor(numbers)).numpy()[0]
        right = ReferenceEvaluator(network).run(None, {"x": numbers})[0][0]
        by_hand = numbers[0, ::-1].cumsum()[::-1] if attributes.get("reverse") else numbers[0].cumsum()
        assert np.array_equal(right, by_hand)
        if version == 17:
            print(f"{attributes or 'no attributes'}: {found}, right {right}")
        assert np.array_equal(found, right) == bool(attributes), "the behaviour changed"
        assert attributes or np.array_equal(found, [10, 9, 7, 4]), "the behaviour changed"
PYTHON
