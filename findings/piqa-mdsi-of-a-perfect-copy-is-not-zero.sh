#!/usr/bin/env bash
# Guess: `MDSI` of PIQA, the mean deviation similarity index, is 0 for an image that equals its reference, whatever else is in
#   the batch, and the same for two images and for both turned by 90 degrees: it is how far the similarity of the pixels
#   deviates from its mean over the image.
# Behaviour: with piqa 1.3.2 a perfect copy has .36 in a batch with a noisy and a blurred image, as the blurred one; alone they
#   have 0 and .16, as by the formula. Alone, horizontal stripes on a grey image have .30, the same stripes turned to be vertical
#   .15; by hand both have .30. Lower is better.
# Cause: `gcs_q.mean(dim=(-2, -3))` (piqa/mdsi.py) where the last two dimensions are meant. The tensor has the dimensions
#   batch, rows, columns, so each column has its own mean, over the rows of all images.
# Why it matters: the index ranks denoisers, super-resolution and codecs. Here what runs along columns (readout noise of
#   sensors, seams of tiles) is forgiven, and a validation mean depends on the size of the batch.
# Versions: piqa 1.3.2, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps piqa==1.3.2 # its other metrics need torchvision
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import torch

package = types.ModuleType("piqa")  # without LPIPS and FID, which its first file imports
package.__path__ = list(importlib.util.find_spec("piqa").submodule_search_locations)
sys.modules["piqa"] = package
from piqa.mdsi import MDSI
from piqa.utils.color import ColorConv

torch.manual_seed(0)
prewitt = torch.tensor([[1.0, 0, -1]] * 3) / 3
kernels = torch.stack([prewitt, prewitt.T])[:, None]


def compute_mdsi(image, reference):
    """Return the index of one image of 256 x 256 by its formula (Nafchi et al. 2016, in shares of 255)."""
    one, two = (ColorConv("RGB", "LHM")(values) for values in (image, reference))
    edges = [
        torch.nn.functional.conv2d(light, kernels, padding=1).norm(dim=1)
        for light in (one[:, :1], two[:, :1], (one[:, :1] + two[:, :1]) / 2)
    ]

    def compare(first, second, constant):
        return (2 * first * second + constant / 255**2) / (first**2 + second**2 + constant / 255**2)

    gradients = compare(edges[0], edges[1], 140) + compare(edges[0], edges[2], 55) - compare(edges[1], edges[2], 55)
    above = 2 * (one[:, 1:] * two[:, 1:]).sum(1) + 550 / 255**2
    colours = above / ((one[:, 1:] ** 2 + two[:, 1:] ** 2).sum(1) + 550 / 255**2)
    similarity = (0.6 * gradients + 0.4 * colours).to(torch.complex64) ** 0.25
    return (similarity - similarity.mean()).abs().mean().item() ** 0.25


index = MDSI(reduction="none")
row, column = torch.meshgrid(torch.arange(256.0), torch.arange(256.0), indexing="ij")
waves = [0.5 + 0.25 * torch.sin(row / a) + 0.2 * torch.sin((row + column) / b) for a, b in ((17, 9), (23, 7), (31, 11))]
reference = torch.stack(waves)[None].clamp(0, 1)
images = {
    "noisy": (reference + 0.1 * torch.randn(reference.shape)).clamp(0, 1),
    "blurred": torch.nn.functional.avg_pool2d(reference, 9, 1, 4, count_include_pad=False),
    "a perfect copy": reference,
}
together = index(torch.cat(list(images.values())), reference.repeat(3, 1, 1, 1)).tolist()
found = {}
for (name, image), batch in zip(images.items(), together):
    found[name] = batch, index(image, reference).item(), compute_mdsi(image, reference)
    print(f"{name:15} in the batch {found[name][0]:.2f}, alone {found[name][1]:.2f}, by hand {found[name][2]:.2f}")

grey = torch.full((1, 3, 256, 256), 0.5)
stripes = 0.1 * torch.randn(256)
down, across = (index((grey + noise).clamp(0, 1), grey).item() for noise in (stripes, stripes[:, None]))
by_hand = [compute_mdsi((grey + noise).clamp(0, 1), grey) for noise in (stripes, stripes[:, None])]
print(f"stripes on grey: vertical {down:.2f}, horizontal {across:.2f}; by hand {by_hand[0]:.2f} and {by_hand[1]:.2f}")

assert abs(by_hand[0] - by_hand[1]) < 0.001 and found["a perfect copy"][2] < 0.001
assert found["a perfect copy"][1] < 0.001 < 0.2 < found["a perfect copy"][0], "a batch changes nothing now"
assert down < 0.6 * across, "the behaviour changed"
PYTHON
