#!/usr/bin/env bash
# Guess: `post_process_batch_hovernet` of PathML numbers the nuclei that HoVer-Net finds "from 0 to n, where n is the number of
#   individual nuclei", in the mask of all nuclei and, with the same numbers, in the mask of each class.
# Behaviour: with pathml 3.0.8 the masks of the classes hold the numbers modulo 256. Of 900 nuclei in one image, all of which
#   are in the first mask, the class of 600 has 255 different numbers, and so has that of 300: nuclei far apart become one.
#   The 256th, 512th and 768th are background.
# Cause: `out_classification = np.zeros_like(nc_out, dtype=np.uint8)` (pathml/ml/models/hovernet.py), into which labels of 32
#   bits are written.
# Why it matters: counts of cells per class, their sizes and panoptic quality are read from these masks. Tiles of 256 pixels,
#   as in PanNuke, seldom hold so many; tiles of 1,000 pixels (MoNuSeg, CoNSeP) do. Counts saturate where tumours are dense.
# Versions: pathml 3.0.8, torch 2.13.0, numpy 2.4.6, scikit-image 0.26.0, opencv-python-headless 5.0.0.93.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 scikit-image==0.26.0 scikit-learn==1.9.1 matplotlib==3.11.2 \
    opencv-python-headless==5.0.0.93 loguru==0.7.3 tqdm==4.70.0
"$folder/venv/bin/pip" install -q --no-deps pathml==3.0.8 # its readers of slides need more
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import numpy as np
import torch

base = importlib.util.find_spec("pathml").submodule_search_locations[0]
for name in ("", "/ml", "/ml/models"):  # without readers of slides and networks for graphs
    package = types.ModuleType("pathml" + name.replace("/", "."))
    package.__path__ = [base + name]
    sys.modules[package.__name__] = package
graphs = types.ModuleType("torch_geometric.utils")
graphs.degree = None
sys.modules["torch_geometric"], sys.modules["torch_geometric.utils"] = types.ModuleType("torch_geometric"), graphs
from pathml.ml.models.hovernet import compute_hv_map, post_process_batch_hovernet

SIDE, STEP = 30, 14
rows, columns = np.indices((SIDE * STEP, SIDE * STEP))
numbers = rows // STEP * SIDE + columns // STEP + 1
truth = np.where((rows % STEP - STEP // 2) ** 2 + (columns % STEP - STEP // 2) ** 2 <= 20, numbers, 0)
classes = np.where(truth == 0, 2, numbers % 3 == 0)  # 600 nuclei of class 0, 300 of class 1, background

sure = 5 * (2 * torch.tensor(truth > 0).float() - 1)
outputs = [
    torch.stack([-sure, sure])[None],
    torch.tensor(compute_hv_map(truth))[None].float(),
    5 * torch.nn.functional.one_hot(torch.tensor(classes), 3).permute(2, 0, 1)[None].float(),
]
detected, classified = post_process_batch_hovernet(outputs, n_classes=3)


def count(mask):
    return len(np.unique(mask[mask > 0]))


counts = [count(classified[0, number]) for number in (0, 1)]
true = [count(np.where(classes == number, detected[0], 0)) for number in (0, 1)]
lost = count(detected[0][(detected[0] > 0) & (classified[0].max(0) == 0)])
print(f"nuclei in the first mask {count(detected)}; in the masks of the classes {counts}, by hand {true}; "
      f"nuclei that are background in all classes {lost}")
print(f"types of the masks: {detected.dtype} and {classified.dtype}")
assert count(detected) == 900 and true == [600, 300]
assert max(counts) <= 255 and lost == 3, "the behaviour changed"
PYTHON
