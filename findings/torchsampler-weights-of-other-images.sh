#!/usr/bin/env bash
# Guess: `ImbalancedDatasetSampler(dataset, labels, indices)` of torchsampler draws all classes of the given images
#   equally often, in whatever order the indices come, as those of `train_test_split` and `random_split` come shuffled.
# Behaviour: with torchsampler 0.1.2 it does for sorted indices alone. With 10 % of a rare class, drawn images have 50 %
#   of it by sorted indices and 8 % by shuffled ones, as if nothing were balanced. The weights are there, at other
#   images: some images of the frequent class come 16 times as often as others, where chance alone makes it 3.
# Cause: `ImbalancedDatasetSampler.__init__` (torchsampler/imbalanced.py) sorts labels by index, and so the weights,
#   while `__iter__` takes `self.indices` in the caller's order.
# Why it matters: accuracy of the rare class stays low "although the classes are balanced", and which images the network
#   sees ten times as often depends on the seed of the split.
# Versions: torchsampler 0.1.2, pandas 3.1.1, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchsampler==0.1.2 pandas==3.1.1 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
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

from torch.utils.data import random_split
from torchsampler import ImbalancedDatasetSampler

torch.manual_seed(0)
classes = (torch.rand(2000) < 0.1).long()  # class 1 is rare
train, _ = random_split(classes, [1500, 500])


def draw(indices):
    """Return the share of the rare class among 200,000 draws, and how often each frequent image was drawn."""
    labels = classes[indices].tolist()
    sampler = ImbalancedDatasetSampler(classes, labels=labels, indices=indices, num_samples=200_000)
    drawn = torch.tensor(list(sampler))
    counts = torch.bincount(drawn, minlength=2000)[indices]
    return classes[drawn].float().mean().item(), counts[classes[indices] == 0]


(by_sorted, equal), (by_shuffled, unequal) = draw(sorted(train.indices)), draw(train.indices)
print(f"rare class: {100 * classes[train.indices].float().mean():.0f} % of the images")
print(f"drawn by sorted indices {100 * by_sorted:.0f} %, by shuffled ones {100 * by_shuffled:.0f} %")
ratios = [(counts.max() / counts.min()).item() for counts in (equal, unequal)]
print(f"most drawn / least drawn frequent image: {ratios[0]:.0f} and {ratios[1]:.0f}")
assert abs(by_sorted - 0.5) < 0.01 and ratios[0] < 4
assert by_shuffled < 0.15 and ratios[1] > 8, "the behaviour changed"
PYTHON
