#!/usr/bin/env bash
# Guess: the metric `entropy` of IQA-PyTorch (pyiqa), "for grayscale images", is the same for a grey image in [0, 1] with one
#   channel and for the image with that channel three times: the package takes "RGB or gray" images in that range.
# Behaviour: with pyiqa 0.1.16 a grey tensor has an entropy of at most .04 bits, whatever it shows: noise, a ramp, a
#   photograph. With three equal channels the same images have 8.0, 8.0 and 7.2 bits, as by the histogram. Only pixels of
#   exactly 1 count: the ramp with its brighter half in white has 1 bit, and 4.5 with three channels.
# Cause: colours are brought to 0 to 255 on the way to luminance (`to_y_channel`); one channel goes as it is into
#   `one_hot(x.long(), 256)` (pyiqa/archs/entropy_arch.py), so every value below 1 is the grey level 0.
# Why it matters: grey images are what the measure is for: X-rays, microscopy, attribution maps, infrared. In a table the
#   zero looks like flat images; read from a path the same files get three channels, and other numbers.
# Versions: pyiqa 0.1.16, torch 2.13.0, numpy 2.4.6, scikit-image 0.26.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 scikit-image==0.26.0
"$folder/venv/bin/pip" install -q --no-deps pyiqa==0.1.16 # the rest of what it names serves other metrics
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import numpy as np
import torch
from skimage.data import camera
from skimage.measure import shannon_entropy

base = importlib.util.find_spec("pyiqa").submodule_search_locations[0]
for name in ("", "/utils", "/archs"):  # without the other metrics, which the packages' first files import
    package = types.ModuleType("pyiqa" + name.replace("/", "."))
    package.__path__ = [base + name]
    sys.modules[package.__name__] = package
from pyiqa.archs.entropy_arch import Entropy  # what `create_metric("entropy")` wraps

entropy = Entropy()
ramp = np.tile(np.arange(256, dtype=np.uint8), (256, 1))
images = {
    "noise": np.random.default_rng(0).integers(0, 256, (256, 256), dtype=np.uint8),
    "a ramp": ramp,
    "a photograph": camera(),
    "half white": np.where(ramp > 127, 255, ramp).astype(np.uint8),
}
for name, image in images.items():
    grey = torch.from_numpy(image)[None, None] / 255
    one, three = entropy(grey).item(), entropy(grey.expand(-1, 3, -1, -1)).item()
    true = shannon_entropy(image)
    print(f"{name:13} one channel {one:5.2f} bits, three equal channels {three:.2f}, by the histogram {true:.2f}")
    assert abs(three - true) < 0.01
    assert one < 0.1 if name != "half white" else abs(one - 1) < 0.01, "the behaviour changed"
PYTHON
