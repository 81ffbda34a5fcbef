#!/usr/bin/env bash
# Guess: `torch.manual_seed` decides the order of training images and the dropout of a run, whatever the data set is, so
#   runs with other seeds are independent.
# Behaviour: with torchxrayvision 1.5.7, a data set with a `transform`, and no worker processes (the default of
#   `DataLoader`), only the first epoch's order follows the seed. The orders of all later epochs and the dropout after
#   them are the same for every seed, because the data set is built with `seed=0`. With one worker process they differ.
# Cause: `apply_transforms` (torchxrayvision/datasets.py) draws a seed from numpy's global generator for each image and
#   gives it to `torch.random.manual_seed`, so that image and mask move alike, and does not put the state back. Each data
#   set's constructor calls `np.random.seed(seed)`, whose default is 0. It does so for transforms without chance, too.
# Why it matters: means, deviations and tests over five runs take the runs as independent. These share all but the first
#   weights and the first epoch, so the spread over seeds is too small, and a method's lead looks surer than it is.
# Versions: torchxrayvision 1.5.7, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6, pandas 3.1.1, scikit-image 0.26.0,
#   pillow 13.0.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchxrayvision==1.5.7 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6 pandas==3.1.1 \
    scikit-image==0.26.0 pillow==13.0.0
"$folder/venv/bin/python" -W ignore - "$folder" <<'PYTHON'
import sys

import numpy as np
import pandas
import torch
from PIL import Image
from torch.utils.data import DataLoader

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from torchxrayvision.datasets import NIH_Dataset, XRayResizer

folder = sys.argv[1]
table = pandas.read_csv(NIH_Dataset(folder).csvpath)
table = table[table["View Position"] == "PA"].drop_duplicates("Patient ID")[:24]
table.to_csv(f"{folder}/table.csv")
noise = np.random.default_rng(0).integers(0, 256, (24, 64, 64), np.uint8)
for name, pixels in zip(table["Image Index"], noise, strict=True):
    Image.fromarray(pixels).save(f"{folder}/{name}")


def run(seed, workers, transform):
    """Return the orders of three epochs, and the values that dropout keeps afterwards."""
    torch.manual_seed(seed)
    dataset = NIH_Dataset(folder, f"{folder}/table.csv", transform=transform)
    orders = []
    for _ in range(3):
        loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=workers)
        orders.append(torch.cat([batch["idx"] for batch in loader]).tolist())
    return orders, torch.nn.functional.dropout(torch.ones(64)).tolist()


for workers, transform in ((0, XRayResizer(32)), (1, XRayResizer(32)), (0, None)):
    (orders, kept), *others = [run(seed, workers, transform) for seed in range(5)]
    equal = [all(other[0][epoch] == orders[epoch] for other in others) for epoch in range(3)]
    equal.append(all(other[1] == kept for other in others))
    print(f"{workers} workers, transform {transform is not None}: five seeds have equal orders in epochs 1, 2 and 3: "
          f"{equal[:3]}; equal dropout: {equal[3]}")
    shared = workers == 0 and transform is not None
    assert equal == [False, shared, shared, shared], "the behaviour changed"
PYTHON
