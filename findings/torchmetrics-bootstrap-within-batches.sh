#!/usr/bin/env bash
# Guess: BootStrapper of torchmetrics resamples the images of a test set, so its standard deviation of an accuracy is
#   that of the textbook, about sqrt(p (1 - p) / n), whatever the batch size.
# Behaviour: with torchmetrics 1.9.0 and `sampling_strategy="multinomial"` it depends on the batches. Of 200 images it is
#   .028 in one batch, .016 in batches of 2, and 0 one by one. If easy images come first and hard ones last,
#   batches of 10 give .007. "poisson", the default, gives .028 and .029.
# Cause: `update` (torchmetrics/wrappers/bootstrapping.py) draws as many images as a batch has from this batch, so the
#   sum of each batch varies, and differences between batches never do. The documentation says that this approximates
#   the bootstrap of the whole data set.
# Why it matters: "true bootstrapping", as it calls this strategy, gives error bars that a smaller GPU narrows; data sets
#   on disk are sorted by class.
# Versions: torchmetrics 1.9.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torchmetrics import MeanMetric
from torchmetrics.wrappers import BootStrapper

torch.manual_seed(0)
correct = (torch.rand(200) < 0.8).float()
right = float(correct.std() / 200**0.5)
print(f"textbook: {right:.4f}")
for strategy, batch, images, low, high in (
    ("poisson", 200, correct, 0.8, 1.25),
    ("poisson", 1, correct, 0.8, 1.25),
    ("multinomial", 200, correct, 0.8, 1.25),
    ("multinomial", 2, correct, 0.5, 0.85),
    ("multinomial", 1, correct, 0, 1e-4),
    ("multinomial", 10, correct.sort().values, 0.1, 0.5),
):
    metric = BootStrapper(MeanMetric(), num_bootstraps=80, sampling_strategy=strategy)
    for part in images.split(batch):
        metric.update(part)
    found = float(metric.compute()["std"])
    order = "" if images is correct else ", sorted"
    print(f"{strategy}, batches of {batch}{order}: {found:.4f}")
    assert low * right <= found <= high * right, "the behaviour changed"
PYTHON
