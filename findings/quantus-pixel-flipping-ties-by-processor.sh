#!/usr/bin/env bash
# Guess: PixelFlipping has no random numbers, so one network, image and map give one curve on every processor.
# Behaviour: with Quantus 0.6.0 the order of equal values depends on the processor's vector instructions. For maps with
#   84 % zeros, as guided backprop and maps after a ReLU have, the mean curve moves by .009 in probability and single
#   images by up to .05 if NumPy's kernels for AVX2 and AVX-512 are off; without ties by .0006 and .002, by rounding.
# Cause: `np.argsort(-a_batch, axis=1)` (quantus/metrics/faithfulness/pixel_flipping.py) is not stable, and NumPy chooses
#   its sort by the processor. ROAD, Selectivity, IROF, Monotonicity and RegionPerturbation call it, too.
# Why it matters: two machines report two scores for one map. roarbench has a stated order of ties.
# Versions: quantus 0.6.0, torch 2.13.0, numpy 2.4.6. A processor without AVX2 shows nothing, and the script says so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q quantus==0.6.0 torch==2.13.0 numpy==2.4.6
cat > "$folder/score.py" <<'PYTHON'
import sys

import numpy as np
import quantus
import torch

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(7200, 10))
images = np.random.default_rng(0).standard_normal((8, 3, 32, 32)).astype(np.float32)
classes = network.eval()(torch.tensor(images)).argmax(1).numpy()
maps = np.random.default_rng(1).standard_normal((8, 1, 32, 32))
metric = quantus.PixelFlipping(
    features_in_step=64, abs=False, normalise=False, perturb_baseline=0.0, disable_warnings=True
)
for name, each in (("without", maps), ("with", np.maximum(maps - 1, 0))):
    scores = metric(network, images, classes, each, channel_first=True, softmax=True)
    np.save(f"{sys.argv[1]}-{name}.npy", np.array(scores))
PYTHON
"$folder/venv/bin/python" -W ignore "$folder/score.py" "$folder/fast"
NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4" "$folder/venv/bin/python" -W ignore "$folder/score.py" "$folder/plain"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import numpy as np
from numpy._core._multiarray_umath import __cpu_features__

if not __cpu_features__.get("X86_V3"):
    sys.exit("this processor has one kind of sort only, so nothing can be compared")
for name, expected in (("without", False), ("with", True)):
    fast, plain = (np.load(f"{sys.argv[1]}/{kind}-{name}.npy") for kind in ("fast", "plain"))
    change, mean = np.abs(fast - plain).max(), np.abs(fast.mean(0) - plain.mean(0)).max()
    print(f"maps {name} ties: single curves differ by up to {change:.4f}, the mean curve by up to {mean:.4f}")
    assert (mean > 0.001) == expected, "the behaviour changed"
PYTHON
