#!/usr/bin/env bash
# Guess: `ImageClassificationExplainer(…)(image, class_name="cat")` of transformers-interpret explains the class "cat"
#   and `index=0` the class 0, as its SequenceClassificationExplainer does for texts; a name that does not exist is
#   refused.
# Behaviour: with transformers-interpret 0.10.0 each `class_name` and the index 0 return the map of the *predicted*
#   class, to the last digit. Other indices are explained as asked. Of the four requests for the two classes that a
#   network of three does not predict, one is met.
# Cause: `_calculate_attributions` (explainers/vision/image_classification.py) asks `if index`, which 0 fails, and
#   otherwise writes the predicted class over the one that `class_name` had chosen. `selected_index` tells the class.
# Why it matters: "which pixels speak for cat, which for dog" has one answer; maps that do not depend on the class look
#   like a property of the method, and sanity checks over classes fail.
# Versions: transformers-interpret 0.10.0, transformers 5.24.0, captum 0.9.0, torch 2.13.0, torchvision 0.28.0, pillow
#   13.0.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.24.0 captum==0.9.0 torch==2.13.0 torchvision==0.28.0 pillow==13.0.0 \
    numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps transformers-interpret==0.10.0  # requires an old IPython
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import numpy as np
import torch
from PIL import Image

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from captum.attr import IntegratedGradients
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor
from transformers_interpret import ImageClassificationExplainer

torch.manual_seed(0)
names = ["cat", "dog", "bird"]
config = ViTConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    image_size=32,
    patch_size=8,
    id2label=dict(enumerate(names)),
    label2id={name: number for number, name in enumerate(names)},
)
network = ViTForImageClassification(config).eval()
processor = ViTImageProcessor(size={"height": 32, "width": 32})
image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8))
pixels = processor(image, return_tensors="pt")["pixel_values"]
predicted = network(pixels).logits.argmax().item()
assert predicted == 2
gradients = IntegratedGradients(lambda inputs: network(inputs).logits)
right = [gradients.attribute(pixels, target=number).detach().numpy() for number in range(3)]
assert not np.allclose(right[0], right[2]) and not np.allclose(right[1], right[2])
explain = ImageClassificationExplainer(network, processor, attribution_type="IG")
for number, name in enumerate(names):
    for request in ({"index": number}, {"class_name": name}):
        found = explain(image, internal_batch_size=10, **request)
        explained = [names[other] for other in range(3) if np.allclose(found, right[other], atol=1e-6)]
        print(f"{request}: the map of {explained[0]}")
        expected = name if request == {"index": 1} else "bird"
        assert explained == [expected] and names[explain.selected_index] == expected, "the behaviour changed"
PYTHON
