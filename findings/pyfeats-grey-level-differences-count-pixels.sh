#!/usr/bin/env bash
# Guess: the grey level difference statistics of pyfeats (`glds_features`) describe a texture: contrast, angular second moment,
#   entropy and mean of the differences between neighbours. Two pieces of one texture have about the same, the mean is the mean
#   difference, and the entropy is not negative.
# Behaviour: with pyfeats 1.0.1 they grow with the number of pixels. Pieces of 32, 64 and 128 pixels a side of one texture have a
#   "mean" of 11,731, 46,792 and 190,447 grey levels, where it is 11.7 to 12.0 by hand, and an "entropy" of -3,621, -20,125 and
#   -102,973, by hand 3.4 nats each. The second moment grows with the square of the area.
# Cause: `glds` (pyfeats/textural/glds.py) returns counts of differences, `np.histogram` without `density=True` as in the other
#   functions of the package, and `glds_features` uses them as probabilities.
# Why it matters: lesions and plaques have masks of any size. A classifier on these features sees the area five times, and
#   the importance that it gives to texture is that of size. Where another package computes them, no threshold carries over.
# Versions: pyfeats 1.0.1, numpy 2.4.6, scipy 1.17.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 scipy==1.17.1
"$folder/venv/bin/pip" install -q --no-deps pyfeats==1.0.1 # the rest of what it names serves other features
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import numpy as np
from scipy.ndimage import gaussian_filter

base = importlib.util.find_spec("pyfeats").submodule_search_locations[0]
for name in ("", "/textural"):  # without the features that need OpenCV and mahotas
    package = types.ModuleType("pyfeats" + name.replace("/", "."))
    package.__path__ = [base + name]
    sys.modules[package.__name__] = package
from pyfeats.textural.glds import glds_features

texture = gaussian_filter(np.random.default_rng(0).normal(size=(128, 128)), 2, mode="wrap")
texture = np.round(255 * (texture - texture.min()) / np.ptp(texture))


def compute_by_hand(image):
    """Return contrast, second moment, entropy and mean of the differences with the neighbours in four directions."""
    statistics = []
    for one, two in ((0, 1), (1, 1), (1, 0), (1, -1)):
        left = image[: image.shape[0] - one, max(0, -two) : image.shape[1] - max(0, two)]
        right = image[one:, max(0, two) : image.shape[1] + min(0, two)]
        share = np.bincount(np.abs(left - right).astype(int).ravel(), minlength=256) / left.size
        some = share[share > 0]
        statistics.append([share @ np.arange(256) ** 2, share @ share, -some @ np.log(some), share @ np.arange(256)])
    return np.mean(statistics, axis=0)


found, true = [], []
for size in (32, 64, 128):
    _, contrast, moment, entropy, mean = glds_features(texture[:size, :size], None)[0]
    found.append([contrast, moment, entropy, mean])
    true.append(compute_by_hand(texture[:size, :size]))
    print(f"{size:3} x {size:3}: mean {mean:7,.0f}, by hand {true[-1][3]:.1f}; entropy {entropy:8,.0f}, "
          f"by hand {true[-1][2]:.2f}; contrast {contrast:9,.0f}, by hand {true[-1][0]:.0f}; "
          f"second moment {moment:10,.0f}, by hand {true[-1][1]:.3f}")
found, true = np.array(found), np.array(true)
assert (np.ptp(true, axis=0) < 0.2 * true.mean(0)).all()
assert (found[:, 2] < -1000).all() and (found[2, [0, 3]] > 10 * found[0, [0, 3]]).all(), "the behaviour changed"
assert found[2, 1] > 200 * found[0, 1]
PYTHON
