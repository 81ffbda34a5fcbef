#!/usr/bin/env bash
# Guess: `CondAttribution(network)(image, conditions, composite)` of zennit-crp returns the heatmap of each condition at
#   the condition's place in the list, and the same list, moved about, returns the same heatmaps, moved about.
# Behaviour: with zennit-crp 0.6.0 conditions are sorted by the layers that they name, and heatmaps come back in that
#   order. Of five concepts of two layers that take turns in the list, one heatmap stands at its own place; the others
#   are those of other concepts, and so are the `relevances` of recorded layers. Asked for one by one, all are right.
#   With two images and four conditions, two in each layer, four of the eight heatmaps come back: the first concepts of
#   both layers on the first image, the second ones on the second. `exclude_parallel=False` returns five and eight, at
#   their places.
# Cause: `_conditions_wrapper` (crp/attribution.py) splits the list by layers, attributes each part for itself, and
#   joins the results without their places; `broadcast` pairs images with conditions if a part happens to have as many.
# Why it matters: the most relevant concepts of all layers, sorted by relevance, are the usual list. Pictures then carry
#   the names of other concepts, and a concept's pixels are removed for another one's score. Shapes look right.
# Versions: zennit-crp 0.6.0, zennit 0.4.6, torch 2.13.0, torchvision 0.28.0, pillow 13.0.0, matplotlib 3.10.9, tqdm
#   4.68.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q zennit-crp==0.6.0 zennit==0.4.6 torch==2.13.0 torchvision==0.28.0 pillow==13.0.0 \
  matplotlib==3.10.9 tqdm==4.68.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import torch
from torch import nn

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from crp.attribution import CondAttribution
from zennit.composites import EpsilonPlus

torch.manual_seed(0)
layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4)
attribution = CondAttribution(nn.Sequential(*layers).eval())
images = torch.randn(2, 3, 12, 12)


def explain(images, conditions, **settings):
    return attribution(images.clone().requires_grad_(), conditions, EpsilonPlus(), **settings).heatmap


def find_places(heatmaps, conditions):
    """Return for each heatmap the number of the condition whose heatmap it is."""
    alone = torch.cat([explain(images[:1], [condition]) for condition in conditions])
    distances = torch.cdist(heatmaps.flatten(1), alone.flatten(1))
    assert distances.min(1).values.max() < 1e-5, "a heatmap belongs to no condition"
    return distances.argmin(1).tolist()


conditions = [{"y": [0], layer: [channel]} for layer, channel in (("0", 1), ("2", 1), ("0", 2), ("2", 2), ("0", 3))]
found = find_places(explain(images[:1], conditions), conditions)
print("heatmaps of five conditions belong to conditions", found)
whole = explain(images[:1], conditions, exclude_parallel=False)
own = torch.cat([explain(images[:1], [condition], exclude_parallel=False) for condition in conditions])
counts = [len(explain(images, conditions[:4], exclude_parallel=exclude)) for exclude in (True, False)]
print(f"two images, four conditions: {counts[0]} heatmaps, and {counts[1]} with exclude_parallel=False")
assert torch.allclose(whole, own, atol=1e-6), "without exclusion places change, too"
assert found == [0, 2, 4, 1, 3] and counts == [4, 8], "the behaviour changed"
PYTHON
