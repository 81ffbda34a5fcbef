#!/usr/bin/env bash
# Guess: a detector that finds each tumour and nothing else has the free-response score (FROC) 1, whatever its confidences are.
# Behaviour: with MONAI 1.6.1 it has 0 if all detections have the same confidence, .5 if half of them have a lower one, .9 if
#   one of ten has. One tumour more that is missed raises the score: ten of eleven found, all with confidence 1, have .91.
# Cause: `compute_froc_curve_data` (monai/metrics/froc.py) leaves out the lowest distinct value of all confidences as a
#   threshold. That is the 0 that stands for a missed tumour; if none is missed, it is the lowest of a detection. The code
#   of the CAMELYON 16 challenge, which it names as its source, has the same line.
# Why it matters: places are found by peaks of maps, and peaks of maps that are scaled to [0, 1] have 1. Of two detectors the
#   one that misses a tumour is better, and a curve of few detections loses its best point without a word.
# Versions: monai 1.6.1, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from monai.metrics import compute_fp_tp_probs, compute_froc_curve_data, compute_froc_score

RATES = 0.25, 0.5, 1, 2, 4, 8  # false positives for an image


def draw(tumours):
    mask = np.zeros((20, 20 * tumours), int)
    for number in range(tumours):
        mask[5:15, 20 * number + 5 : 20 * number + 15] = number + 1
    return mask


def score(confidences, mask):
    columns = np.arange(len(confidences)) * 20 + 10
    false, true, tumours = compute_fp_tp_probs(np.array(confidences), np.full(len(columns), 10), columns, mask)
    return compute_froc_score(*compute_froc_curve_data(false, true, tumours, num_images=1), RATES)


def score_by_hand(confidences, mask):
    """Return the mean over rates of the most tumours that a threshold finds; no detection is false, so each rate allows all."""
    found = [sum(confidence >= threshold for confidence in confidences) for threshold in confidences]
    return np.mean([max(found) / mask.max() for _ in RATES])


for name, confidences, tumours, known in (
    ("ten of ten, all with 1", [1.0] * 10, 10, 0),
    ("ten of ten, five with .9", [1.0] * 5 + [0.9] * 5, 10, 0.5),
    ("ten of ten, one with .9", [1.0] * 9 + [0.9], 10, 0.9),
    ("ten of eleven, all with 1", [1.0] * 10, 11, 10 / 11),
    ("one of one", [0.8], 1, 0),
):
    given, right = score(confidences, draw(tumours)), score_by_hand(confidences, draw(tumours))
    print(f"{name}: {given:.2f}, by hand {right:.2f}")
    assert abs(right - len(confidences) / tumours) < 1e-9
    assert abs(given - known) < 1e-6, "the behaviour changed"
PYTHON
