#!/usr/bin/env bash
# Guess: MONAI's OcclusionSensitivity turns the outputs of a network into probabilities by a softmax if it has several, by a
#   sigmoid if it has one ("softmax activation if num_channels > 1 else sigmoid").
# Behaviour: with MONAI 1.6.1 the channels of the image decide. A network with one logit has 1.0 everywhere on a colour image,
#   in a map for which its probability falls from .95 to .05 on a grey one. On a grey image three classes are three sigmoids,
#   which add up to 2.2; where the object of class 0 is hidden, class 1 stays as it is instead of rising.
# Cause: `OcclusionSensitivity.predictor` (monai/visualize/occlusion_sensitivity.py) asks `x.shape[1] == 1`, the channels of the
#   input; the softmax of one logit is 1. `activate=torch.sigmoid` and `activate=lambda logits: logits.softmax(1)` are right.
# Why it matters: medical images are grey and have classes, photographs of skin are coloured and have one logit. A flat map reads
#   as a network that looks nowhere; maps by a sigmoid do not show evidence for the other classes.
# Versions: monai 1.6.1, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from monai.visualize import OcclusionSensitivity
from torch import nn


class Place(nn.Module):
    """Gives the brightness of one place of the image for class 0, constants for others."""

    def __init__(self, *others):
        super().__init__()
        self.others = others

    def forward(self, images):
        first = 6 * images[:, :, 8:16, 8:16].mean((1, 2, 3)) - 3
        return torch.stack([first, *(torch.full_like(first, value) for value in self.others)], 1)


def explain(network, channels, activate):
    image = torch.zeros(1, channels, 32, 32)
    image[:, :, 8:16, 8:16] = 1
    settings = {"mask_size": 8, "mode": 0.0, "overlap": 0, "verbose": False}
    return OcclusionSensitivity(network, activate=activate, **settings)(image)[0][0], network(image)[0]


maps = {}
for name, network, channels, right in (
    ("one logit, grey", Place(), 1, torch.sigmoid),
    ("one logit, colours", Place(), 3, torch.sigmoid),
    ("three classes, grey", Place(1.0, 0.0), 1, lambda logits: logits.softmax(1)),
    ("three classes, colours", Place(1.0, 0.0), 3, lambda logits: logits.softmax(1)),
):
    given, logits = explain(network, channels, True)
    by_hand, _ = explain(network, channels, right)
    maps[name] = given, by_hand
    print(f"{name}: class 0 from {given[0].min():.2f} to {given[0].max():.2f}, by hand {by_hand[0].min():.2f} to "
          f"{by_hand[0].max():.2f}; classes add up to {given.sum(0).max():.2f}, by hand {by_hand.sum(0).max():.2f}")
for name in ("one logit, grey", "three classes, colours"):
    torch.testing.assert_close(*maps[name])
given, by_hand = maps["one logit, colours"]
assert (given == 1).all() and by_hand.max() - by_hand.min() > 0.3, "the behaviour changed"
given, by_hand = maps["three classes, grey"]
torch.testing.assert_close(by_hand.sum(0), torch.ones(32, 32))
assert given.sum(0).max() > 2, "the behaviour changed"
spread = [(scores[1].max() - scores[1].min()).item() for scores in (given, by_hand)]
print(f"class 1 differs by {spread[0]:.2f} over the map, by hand {spread[1]:.2f}")
assert spread[0] < 1e-6 < 0.05 < spread[1], "the behaviour changed"
PYTHON
