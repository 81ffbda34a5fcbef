#!/usr/bin/env bash
# Guess: `relaxed_f1(truth, prediction, radius=3)` of Solaris forgives a road that is up to three pixels beside the true one, in
#   each direction alike, so a prediction that is moved by three pixels has a precision and a recall of 1.
# Behaviour: with solaris 0.4.0 precision and recall look in opposite directions. Moved down or right by three pixels a one-pixel
#   road has a precision of 1 and a recall of 0; moved up or left the other way round; F1 is 0 each time. With `radius=1` only
#   the road itself counts on one side. Moved by two pixels all are 1.
# Cause: `_get_neighborhood_limits` (solaris/eval/pixel.py) returns `row + rho` as the end of a slice, so the window of a
#   pixel has `radius` rows above it and `radius - 1` below.
# Why it matters: the relaxed measures were made for roads and field borders, where labels are off by a pixel or two and
#   tiles are shifted against each other. Networks that shift (strided convolutions, resizing) lose or gain by direction.
# Versions: solaris 0.4.0, numpy 2.4.6, scipy 1.17.1, opencv-python-headless 5.0.0.93, matplotlib 3.11.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 scipy==1.17.1 opencv-python-headless==5.0.0.93 matplotlib==3.11.2
"$folder/venv/bin/pip" install -q --no-deps solaris==0.4.0 # its networks need more
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import numpy as np
from scipy.ndimage import maximum_filter

base = importlib.util.find_spec("solaris").submodule_search_locations[0]
for name in ("", "/eval"):  # without networks and maps, which the packages' first files import
    package = types.ModuleType("solaris" + name.replace("/", "."))
    package.__path__ = [base + name]
    sys.modules[package.__name__] = package
from solaris.eval.pixel import relaxed_f1


def compute_by_hand(truth, prediction, radius):
    near_truth, near_prediction = (maximum_filter(mask, 2 * radius + 1) for mask in (truth, prediction))
    return near_truth[prediction > 0].mean(), near_prediction[truth > 0].mean()


road = np.zeros((60, 60))
road[30, 10:50] = road[10:50, 30] = 1  # a crossing of two roads of one pixel
only = {"down": road * (np.arange(60) == 30)[:, None], "right": road * (np.arange(60) == 30)}
steps = {"down": (1, 0), "up": (-1, 0), "right": (0, 1), "left": (0, -1)}
for radius in (1, 3):
    for name, step in steps.items():
        truth = only["down" if step[0] else "right"]
        for far in (radius - 1, radius):
            moved = np.roll(truth, (far * step[0], far * step[1]), (0, 1))
            f1, precision, recall = relaxed_f1(truth, moved, radius)
            hand = compute_by_hand(truth, moved, radius)
            print(f"radius {radius}, moved {name:5} by {far}: precision {precision:.2f}, recall {recall:.2f}, F1 {f1:.2f}; "
                  f"by hand {hand[0]:.2f} and {hand[1]:.2f}")
            assert hand == (1, 1)
            if far < radius:
                assert (precision, recall) == (1, 1)
            else:
                assert (precision, recall) == ((1, 0) if min(step) == 0 else (0, 1)) and f1 == 0, "the behaviour changed"
PYTHON
