#!/usr/bin/env bash
# Guess: MONAI's `VarianceMetric` of repeated predictions (N repeats, C channels) is how far the repeats differ, averaged or summed
#   over channels and pixels: 0 if all repeats are equal, and large where a network contradicts itself.
# Behaviour: with MONAI 1.6.1 it is the variance over repeats and channels together. Twenty equal repeats of a sure network
#   (.98, .02) have .23, and twenty repeats that wander between .3 and .7 have .01; by the guess 0 and .01. In an image that is
#   sure outside and undecided inside the map is turned round: it is highest where the repeats are equal. Besides, zeros of
#   the caller's own tensor become .0005.
# Cause: `compute_variance` (monai/metrics/active_learning_metrics.py) reshapes to (N * C, ...) before `torch.var`, as its
#   comment says, and writes its threshold into `y_pred.float()`, which is the argument itself if that is of floats.
#   With one channel, or without a background of two, it is the variance of the repeats.
# Why it matters: active learning annotates the images of the highest variance next. With softmax outputs these are the images
#   that the network is surest of.
# Versions: monai 1.6.1, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from monai.metrics import VarianceMetric

generator = torch.Generator().manual_seed(0)
sure = torch.full((20, 1, 32, 32), 0.98)
wandering = 0.3 + 0.4 * torch.rand(20, 1, 32, 32, generator=generator)
mixed = sure.clone()
mixed[..., 8:24, 8:24] = wandering[..., 8:24, 8:24]
means = {}
for name, first in (("sure", sure), ("wandering", wandering), ("sure outside, wandering inside", mixed)):
    repeats = torch.cat([first, 1 - first], 1)  # two classes, as a softmax gives them
    by_hand = repeats.var(0, unbiased=False).mean()
    both = repeats.flatten(0, 1).var(0, unbiased=False).mean()
    given = VarianceMetric(scalar_reduction="mean")(repeats.clone())
    one = VarianceMetric(scalar_reduction="mean")(first.clone())
    means[name] = given.item(), by_hand.item()
    print(f"{name}: {given:.3f}, variance of the repeats {by_hand:.3f}, one channel {one:.3f}")
    torch.testing.assert_close(one, by_hand)
    torch.testing.assert_close(given, both, msg="the behaviour changed")
assert means["sure"][1] < 1e-9 < means["wandering"][1] and means["sure"][0] > 10 * means["wandering"][0]
repeats = torch.cat([mixed, 1 - mixed], 1)
image = VarianceMetric(spatial_map=True)(repeats.clone())
inside, outside = image[8:24, 8:24].mean(), image[:8].mean()
print(f"map: {inside:.3f} where repeats differ, {outside:.3f} where they are equal")
assert outside > 10 * inside, "the behaviour changed"
probabilities = torch.tensor([[1.0, 0, 0.5, 0]]).repeat(3, 1, 1)
VarianceMetric()(probabilities)
print(f"the caller's probabilities afterwards: {probabilities[0].tolist()}")
assert (probabilities == 0).sum() == 0, "the behaviour changed"
PYTHON
