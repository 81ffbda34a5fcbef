#!/usr/bin/env bash
# Guess: `init_weights()` of a timm network ("Initialize model weights.") draws all weights anew and resets the statistics
#   of batch norms, in each family that has it, so a copy of a trained network becomes an untrained one.
# Behaviour: with timm 1.0.31 it depends on the family. Of a ViT and a Swin no tensor stays. Of ResNet-18 the classifier
#   stays as trained, and so do all means and variances of the batch norms and all but 8 of their weights: 74 of 102
#   tensors. ConvNeXt, EfficientNet, VGG, DenseNet and MobileNet have no such method.
# Cause: `ResNet.init_weights` (timm/models/resnet.py) draws convolutions and sets the last batch norm of each block to
#   0; the rest is left to the constructors, as the method was made to be called once, by these.
# Why it matters: sanity checks, siblings and ROAR need an untrained twin, and this one has the trained classifier and
#   the trained network's statistics; a ViT beside it has nothing. Build the twin by `create_model` instead.
# Versions: timm 1.0.31, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q timm==1.0.31 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

import timm

for name, expected in (("resnet18", 74), ("vit_tiny_patch16_224", 0), ("swin_tiny_patch4_window7_224", 0)):
    network = timm.create_model(name, num_classes=5)
    values = {key: value for key, value in network.state_dict().items() if value.is_floating_point()}
    for value in values.values():  # as if trained
        value.add_(1.0)
    trained = {key: value.clone() for key, value in values.items()}
    network.init_weights()
    kept = [key for key, value in network.state_dict().items() if key in trained and torch.equal(value, trained[key])]
    print(f"{name}: init_weights() leaves {len(kept)} of {len(trained)} tensors as they were")
    assert len(kept) == expected, "the behaviour changed"
    assert ("fc.weight" in kept) == (name == "resnet18"), "the behaviour changed"
for name in ("convnext_atto", "efficientnet_b0", "vgg11", "densenet121", "mobilenetv3_small_100"):
    assert not hasattr(timm.create_model(name, num_classes=5), "init_weights"), "the behaviour changed"
PYTHON
