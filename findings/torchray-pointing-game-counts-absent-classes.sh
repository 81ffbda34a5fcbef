#!/usr/bin/env bash
# Guess: the accuracy of TorchRay's PointingGame is the mean over the classes that were tested, so maps that always point
#   at the object have 100 %, on a part of the data as well; `tolerance=0` asks whether the pixel itself is on the object.
# Behaviour: with torchray 1.0.0.2 a class without a test counts as 0 %: perfect maps for 3 of 20 classes have 15 %, and a
#   coin over all 20 classes has 50 %. With `tolerance=0` every point is a miss, also in the middle of the object;
#   `tolerance=1` is the pixel itself. The default 15 forgives everything on images of 28 pixels: a corner hits a centred
#   object of 8 pixels.
# Cause: `class_accuracies` divides by at least 1 and `accuracy` is its mean; `evaluate` accepts distances *below* the
#   tolerance (torchray/benchmark/pointing_game.py).
# Why it matters: the score of a subset, of a split by difficulty or of one's own data with fewer classes measures which
#   classes occur; 15 pixels were chosen for photographs.
# Versions: torchray 1.0.0.2, torch 2.13.0, torchvision 0.28.0, pycocotools 2.0.11, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchray==1.0.0.2 torch==2.13.0 torchvision==0.28.0 pycocotools==2.0.11 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torchray.benchmark.pointing_game import PointingGame


def play(classes, point_of, tolerance=15, side=224):
    """Return the accuracy for one image of each class, whose object is a square of a quarter of the side."""
    game = PointingGame(20, tolerance=tolerance)
    for number in classes:
        mask = torch.zeros(side, side, dtype=torch.bool)
        mask[side * 3 // 8 : side * 5 // 8, side * 3 // 8 : side * 5 // 8] = True
        game.aggregate(game.evaluate(mask, point_of(number, side)), number)
    return float(game.accuracy)


perfect = play((4, 7, 11), lambda number, side: (side // 2, side // 2))
coin = play(range(20), lambda number, side: (side // 2, side // 2) if number % 2 else (0, 0))
print(f"perfect maps of 3 classes {100 * perfect:.0f} %, every second hit in 20 classes {100 * coin:.0f} %")
middle = [play(range(20), lambda number, side: (side // 2, side // 2), tolerance) for tolerance in (0, 1)]
print(f"the middle of the object: {100 * middle[0]:.0f} % with tolerance=0, {100 * middle[1]:.0f} % with tolerance=1")
corners = [play(range(20), lambda number, side: (0, 0), side=side) for side in (224, 28)]
print(f"a corner: {100 * corners[0]:.0f} % with 224 pixels, {100 * corners[1]:.0f} % with 28")
assert abs(perfect - 0.15) < 1e-9 and coin == 0.5, "the behaviour changed"
assert middle == [0, 1] and corners == [0, 1], "the behaviour changed"
PYTHON
