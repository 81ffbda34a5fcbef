#!/usr/bin/env bash
# Guess: of pyfeats, the coefficient of variation (`fos`) is the standard deviation divided by the mean: 0 for a flat image,
#   and the same for an image and for one of half the brightness. `shape_parameters` gives the lengths of a region along rows
#   and columns.
# Behaviour: with pyfeats 1.0.1 a flat image of grey 100 has a coefficient of .10, one of 25 has .20. Noise around 100 has .10
#   with a deviation of 2 and with one of 25, where .02 and .25 are due. A region of 20 x 45 pixels inside the image has the
#   lengths 0 and 0; at the upper left corner they are 20 and 45.
# Cause: `np.sqrt(features[2]) / features[0]` (pyfeats/textural/fos.py) takes the root of the median, which stands where the
#   variance was meant. `start` begins as 0 (shape_parameters.py) and is compared with None, so the first empty row ends
#   the search.
# Why it matters: both are columns of published tables of ultrasound, skin and retina, where the first measures brightness
#   and the second whether a lesion touches the border; importances of the two columns are read as heterogeneity and size.
# Versions: pyfeats 1.0.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps pyfeats==1.0.1 # the rest of what it names serves other features
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import numpy as np

base = importlib.util.find_spec("pyfeats").submodule_search_locations[0]
for name in ("", "/textural"):  # without the features that need OpenCV and mahotas
    package = types.ModuleType("pyfeats" + name.replace("/", "."))
    package.__path__ = [base + name]
    sys.modules[package.__name__] = package
from pyfeats.textural.fos import fos
from pyfeats.textural.shape_parameters import shape_parameters

noise = np.random.default_rng(0).normal(size=(64, 64))
images = {
    "flat, 100": np.full((64, 64), 100.0), "flat, 25": np.full((64, 64), 25.0),
    "noise of 2 around 100": 100 + 2 * noise, "noise of 25 around 100": 100 + 25 * noise,
}
found = {}
for name, image in images.items():
    image = image.round()
    features = dict(zip(*fos(image, None)[::-1]))
    found[name] = features["FOS_CoefficientOfVariation"], image.std() / image.mean()
    print(f"{name:22}: coefficient of variation {found[name][0]:.2f}, by hand {found[name][1]:.2f}")

lengths = {}
for name, row, column in (("inside", 10, 5), ("at the right border", 10, 19), ("at the upper left corner", 0, 0)):
    mask = np.zeros((64, 64))
    mask[row : row + 20, column : column + 45] = 1
    lengths[name] = shape_parameters(None, mask, mask)[0][:2].astype(int).tolist()
    print(f"a region of 20 x 45 {name:24}: lengths {lengths[name]}")

assert found["flat, 25"][0] > 1.9 * found["flat, 100"][0] > 0.15, "the behaviour changed"
assert abs(found["noise of 25 around 100"][0] - found["noise of 2 around 100"][0]) < 0.01
assert lengths["inside"] == lengths["at the right border"] == [0, 0] and lengths["at the upper left corner"] == [20, 45]
PYTHON
