#!/usr/bin/env bash
# Guess: the generalised Dice score of torchmetrics is computed for each image and then averaged, so equal images with equal
#   predictions have equal scores, wherever they stand in a batch.
# Behaviour: with torchmetrics 1.9.0 that holds only if every class is in every image. Of eight images of an organ the first
#   has a small lesion; in the other seven, which are equal, four pixels of lesion are predicted where there is none. Alone
#   each of them has .972; in one batch they have .972, .970, .970, .970, .010, .010 and .010. The mean of the eight
#   is .975 one by one and .614 in one batch, and .734 if the image with the lesion is the last one.
# Cause: a class that an image lacks has the weight 1 / 0, for which `_generalized_dice_update`
#   (torchmetrics/functional/segmentation/generalized_dice.py) puts the largest weight of the batch. It reads a table of
#   classes by images as if it were one of images by classes, so the image gets the weight of another class.
# Why it matters: absent classes are the rule in slices of medical volumes, for which this score was made, and the square of
#   the size makes weights of small objects huge. The batch size and the order of images decide about the mean.
# Versions: torchmetrics 1.9.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torchmetrics.functional.segmentation import generalized_dice_score
from torchmetrics.segmentation import GeneralizedDiceScore

truth = torch.zeros(8, 64, 64, dtype=torch.long)
truth[:, 16:48, 16:48] = 1  # an organ
truth[0, 20:22, 20:22] = 2  # a lesion
predicted = truth.clone()
predicted[:, 16:18, 16:48] = 0
predicted[1:, 30:32, 30:32] = 2
settings = {"num_classes": 3, "input_format": "index"}


def score_by_hand(image, reference):
    """Return the score of one image by Sudre et al. (2017), without classes that the image lacks."""
    classes = [number for number in range(3) if (reference == number).any()]
    weights = [1 / (reference == number).sum().item() ** 2 for number in classes]
    both = [((image == number) & (reference == number)).sum().item() for number in classes]
    either = [((image == number).sum() + (reference == number).sum()).item() for number in classes]
    return 2 * sum(w * b for w, b in zip(weights, both)) / sum(w * e for w, e in zip(weights, either))


def print_scores(name, values):
    print(f"{name}: {' '.join(f'{value:.3f}' for value in values)}; mean {sum(values) / len(values):.3f}")


by_hand = [score_by_hand(*pair) for pair in zip(predicted, truth)]
alone = [generalized_dice_score(*pair, **settings).item() for pair in zip(predicted.split(1), truth.split(1))]
together = generalized_dice_score(predicted, truth, **settings).tolist()
lesion_last = generalized_dice_score(predicted.roll(-1, 0), truth.roll(-1, 0), **settings).tolist()
print_scores("by hand", by_hand)
print_scores("one by one", alone)
print_scores("in one batch", together)
print_scores("in one batch, the lesion last", lesion_last)
metric = GeneralizedDiceScore(**settings)
metric.update(predicted, truth)
assert abs(metric.compute().item() - sum(together) / 8) < 1e-5
assert all(abs(here - right) < 1e-5 for here, right in zip(alone, by_hand)) and max(alone[1:]) - min(alone[1:]) < 1e-6
assert torch.equal(predicted[1], predicted[7]) and torch.equal(truth[1], truth[7])
assert together[1] > 0.9 and together[7] < 0.1, "the behaviour changed"
assert lesion_last != together[1:] + together[:1], "the behaviour changed"
PYTHON
