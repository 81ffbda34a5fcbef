#!/usr/bin/env bash
# Guess: `FilterDataset(dataset, ["Atelectasis", "Effusion"])` of torchxrayvision holds the images that have one of the
#   findings, each once.
# Behaviour: with torchxrayvision 1.5.7 an image with both findings is in it twice. Of the 28,868 images of `NIH_Dataset`
#   2,566 have one of the two, and the filtered set has 2,826 entries. With five findings it is 8,921 for 7,238 images, up
#   to five for one. After a random split into two halves, 10 % and 19 % of a half's images are in the other one, too.
# Cause: `FilterDataset.__init__` (torchxrayvision/datasets.py) appends the indices of each label in turn, and joins lists
#   where it should join sets. The images are sorted by label, too.
# Why it matters: `len`, `totals` and each mean count images with several findings several times, and a random split into
#   training and test images has images on both sides, so accuracy and importance are measured on images known by heart.
# Versions: torchxrayvision 1.5.7, torch 2.13.0, torchvision 0.28.0, numpy 2.4.6, pandas 3.1.1, scikit-image 0.26.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchxrayvision==1.5.7 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6 pandas==3.1.1 \
    scikit-image==0.26.0
"$folder/venv/bin/python" -W ignore - "$folder" <<'PYTHON'
import contextlib
import io
import sys

import numpy as np
import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from torchxrayvision.datasets import FilterDataset, NIH_Dataset

dataset = NIH_Dataset(sys.argv[1])
for findings in (["Effusion"], ["Atelectasis", "Effusion"], ["Atelectasis", "Effusion", "Infiltration", "Mass", "Nodule"]):
    with contextlib.redirect_stdout(io.StringIO()):
        filtered = FilterDataset(dataset, findings)
    columns = [dataset.pathologies.index(finding) for finding in findings]
    right = int((dataset.labels[:, columns] == 1).any(1).sum())
    names, copies = np.unique(filtered.csv["Image Index"], return_counts=True)
    order = np.random.default_rng(0).permutation(len(filtered))
    train, test = (set(filtered.csv["Image Index"].iloc[half]) for half in np.array_split(order, 2))
    both = len(train & test) / len(test)
    print(f"{len(findings)} findings: {len(filtered)} entries for {right} images, up to {copies.max()} times each; "
          f"{both:.0%} of one half's images are in the other")
    assert len(names) == right and (len(filtered) > right) == (both > 0) == (len(findings) > 1), "the behaviour changed"
PYTHON
