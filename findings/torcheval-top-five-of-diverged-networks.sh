#!/usr/bin/env bash
# Guess: a network whose training diverged returns NaN and has an accuracy near 0 by every `k` of torcheval's
#   `multiclass_accuracy`, as by torchmetrics; a network that gives all classes the same score is right as often as
#   chance.
# Behaviour: with torcheval 0.0.7 a diverged network has a top-1 accuracy of 0 and a top-5 accuracy of 1, on 1,000
#   classes as on ten, and a network of equal scores too; its reciprocal ranks and hit rates are 1. After a softmax in float16
#   a network that is sure of a wrong class for every image has a top-5 accuracy of 1, and of 0 by its logits.
# Cause: `_multiclass_accuracy_update` (torcheval/metrics/functional/classification/accuracy.py), `hit_rate` and
#   `reciprocal_rank` (ranking/) count the classes with a higher score than the right one. No comparison with NaN is
#   true, and equal scores are not higher; `k=1` takes another path, by argmax.
# Why it matters: top-5 accuracy decides which of many trainings to keep. A search for learning rates takes the run that
#   diverged as the perfect one. MulticlassAccuracy, HitRate and ReciprocalRank call the same functions.
# Versions: torcheval 0.0.7, torchmetrics 1.9.0, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torcheval==0.0.7 torchmetrics==1.9.0 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
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

from torch import nn
from torch.nn import functional as F
from torcheval.metrics import HitRate, MulticlassAccuracy, ReciprocalRank
from torcheval.metrics.functional import multiclass_accuracy
from torchmetrics.functional import accuracy

IMAGES, CLASSES = 500, 1000
generator = torch.Generator().manual_seed(0)
images = torch.randn(IMAGES, 64, generator=generator)
classes = torch.randint(CLASSES, (IMAGES,), generator=generator)

# a training that diverges: the step is too long for a linear layer between two layers
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, CLASSES))
optimizer = torch.optim.SGD(network.parameters(), lr=1e6)
for _ in range(20):
    optimizer.zero_grad()
    F.cross_entropy(network(images), classes).backward()
    optimizer.step()
logits = network(images).detach()
assert logits.isnan().all()

for name, scores in {"diverged": logits, "equal scores": torch.zeros(IMAGES, CLASSES)}.items():
    one, five = (multiclass_accuracy(scores, classes, k=k).item() for k in (1, 5))
    other = accuracy(scores, classes, task="multiclass", num_classes=CLASSES, top_k=5, average="micro").item()
    print(f"{name}: top 1 {one:.3f}, top 5 {five:.3f}; torchmetrics, top 5 {other:.3f}")
    assert one < 0.01 and other < 0.02 and five == 1, "the behaviour changed"
    assert MulticlassAccuracy(k=5).update(scores, classes).compute() == 1, "the behaviour changed"
    assert HitRate(k=1).update(scores, classes).compute().eq(1).all(), "the behaviour changed"
    assert ReciprocalRank().update(scores, classes).compute().eq(1).all(), "the behaviour changed"

# probabilities of float16: a confident network that is wrong about every image
confident = torch.randn(IMAGES, CLASSES, generator=generator)
confident[torch.arange(IMAGES), (classes + 1) % CLASSES] = 30
underflown = confident.softmax(1).half()
found = [multiclass_accuracy(values, classes, k=5).item() for values in (confident, underflown)]
print(f"wrong about every image: top 5 of logits {found[0]:.3f}, of their probabilities {found[1]:.3f}")
assert found[0] < 0.02 and found[1] == 1, "the behaviour changed"
PYTHON
