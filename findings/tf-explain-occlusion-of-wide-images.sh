#!/usr/bin/env bash
# Guess: tf-explain's `OcclusionSensitivity` takes images of any sides: each patch is covered once, and the map shows it
#   where it was.
# Behaviour: with tf-explain 0.3.1 that holds for squares. Of an image of 16 rows and 32 columns only the left square is
#   covered, and its map, of 32 rows and 16 columns, is stretched over the whole image when it is drawn: a network that
#   reads columns 8 to 11 is shown to read column 17, and for one that reads columns 24 to 27 nothing matters anywhere. No
#   error and no warning.
# Cause: `get_sensitivity_map` (tf_explain/core/occlusion_sensitivity.py) lets the horizontal position run over the number
#   of rows and the vertical one over the number of columns, and gives OpenCV's `resize` rows and columns instead of width
#   and height.
# Why it matters: photographs are wider than high. The map looks plausible, because it is as large as the image and smooth.
# Versions: tf-explain 0.3.1, tensorflow-cpu 2.20.0, keras 3.15.1, opencv-python-headless 5.0.0.93.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tensorflow-cpu==2.20.0 keras==3.15.1 numpy==2.4.6 opencv-python-headless==5.0.0.93
"$folder/venv/bin/pip" install -q --no-deps tf-explain==0.3.1
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" -W ignore - 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import cv2
import keras
import numpy as np
from tf_explain.core import OcclusionSensitivity


def find_peak(rows, columns, top, left):
    """Explain a network that reads a square of four pixels; return the place of the largest value, and the map."""
    start = keras.Input((rows, columns, 1))
    layer = keras.layers.Dense(2, activation="softmax")
    network = keras.Model(start, layer(keras.layers.Flatten()(start)))
    weights = np.zeros((rows, columns), np.float32)
    weights[top : top + 4, left : left + 4] = -1 / 256  # a grey patch takes 8 from the logit 4
    layer.set_weights([np.stack([weights.ravel(), 0 * weights.ravel()], 1), np.array([4.0, 0.0])])
    found = OcclusionSensitivity().get_sensitivity_map(network, np.zeros((rows, columns, 1), np.float32), 0, 4)
    drawn = cv2.resize(found, (columns, rows))  # as `heatmap_display` does
    row, column = np.unravel_index(drawn.argmax(), drawn.shape)
    spread = float(found.max() - found.min())
    print(f"{rows} x {columns}, read: rows {top} to {top + 3}, columns {left} to {left + 3}; map {found.shape}, "
          f"largest at ({row}, {column}), values differ by {spread:.2f}")
    return int(row), int(column), spread


row, column, spread = find_peak(16, 16, 4, 8)
assert 4 <= row < 8 <= column < 12 and spread > 0.5
row, column, spread = find_peak(16, 32, 4, 8)
assert column >= 14 and spread > 0.5, "wide images are explained now"
assert find_peak(16, 32, 4, 24)[2] < 1e-3
PYTHON
