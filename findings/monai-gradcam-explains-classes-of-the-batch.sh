#!/usr/bin/env bash
# Guess: MONAI's GradCAM takes each image's own predicted class if `class_idx` is None ("computing `class_idx` from
#   `argmax`"), so a batch of images has the maps that each of them has alone.
# Behaviour: with MONAI 1.6.1 each map explains the sum of the logits of all classes that were predicted in the batch,
#   one summand for each image. Here the batch holds three classes, and the place that matters most moves in most of the
#   24 images. In a batch of one predicted class nothing shows, because maps are rescaled.
# Cause: `ModelWithHooks.class_score` (monai/visualize/class_activation_maps.py) is `logits[:, class_idx]`: a list of
#   classes as index gives a table (images, images), not its diagonal.
# Why it matters: a map depends on its neighbours, and shows evidence for classes that its own image has not. VanillaGrad
#   of the same module refuses batches, GradCAM does not. GradCAM++ fails.
# Versions: monai 1.6.1, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from monai.visualize import GradCAM
from torch import nn

torch.manual_seed(0)
features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
head = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
network = nn.Sequential(features, head).eval()
head[-1].bias.data.zero_()
images = torch.randn(24, 1, 16, 16) * torch.linspace(0, 3, 24)[:, None, None, None]
classes = network(images).argmax(1)


def explain_by_hand(choose):
    layer = features(images)
    logits = head(layer)
    gradient = torch.autograd.grad(choose(logits).sum(), layer)[0]
    return (gradient.mean((2, 3), keepdim=True) * layer).sum(1, keepdim=True).relu().detach()


settings = {"nn_module": network, "target_layers": "0", "upsampler": lambda size: lambda maps: maps}
explain = GradCAM(postprocessing=lambda maps: maps, **settings)
batch = torch.as_tensor(explain(images)).detach()
alone = torch.cat([torch.as_tensor(explain(image[None])).detach() for image in images])
torch.testing.assert_close(alone, explain_by_hand(lambda logits: logits[range(24), classes]))
torch.testing.assert_close(batch, explain_by_hand(lambda logits: logits[:, classes]), msg="the behaviour changed")
moved = int((batch.flatten(1).argmax(1) != alone.flatten(1).argmax(1)).sum())
print(f"predicted classes {classes.bincount().tolist()}; the brightest place moves in {moved} of 24 images")
assert moved > 12, "the behaviour changed"
chosen = classes == classes.mode().values
batch = torch.as_tensor(explain(images[chosen])).detach()
torch.testing.assert_close(batch, alone[chosen] * int(chosen.sum()), msg="the behaviour changed")
print(f"{chosen.sum()} images of one predicted class: {chosen.sum()} times the right maps")
PYTHON
