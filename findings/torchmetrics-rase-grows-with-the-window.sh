#!/usr/bin/env bash
# Guess: the relative average spectral error (RASE) is the root mean squared error in percent of the mean brightness. A
#   grey image of .5 whose copy has .7 has 40 % in a window of any size, and so it has in sewar.
# Behaviour: with torchmetrics 1.9.0 it has 2560 with the default window of 8 pixels, 640 with 4 and 10240 with 16. sewar
#   0.4.10 has 40 each time. Of noisy images torchmetrics has 64 times sewar's value, up to 1 % (the border).
# Cause: `_rase_update` (torchmetrics/functional/image/rase.py) divides the mean brightness of a window once more by the
#   pixels of the window; `_uniform_filter` has returned the mean already.
# Why it matters: the number is documented as a relative error and its own example shows 5326. RASE is reported for
#   pansharpened and restored images beside values of other programs, which are 64 times smaller; 0 stays 0, and the
#   order of methods with one window stays right, so nothing looks wrong.
# Versions: torchmetrics 1.9.0, sewar 0.4.10, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 sewar==0.4.10 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from sewar.full_ref import rase
from torchmetrics.functional.image import relative_average_spectral_error
from torchmetrics.image import RelativeAverageSpectralError

grey = torch.full((1, 3, 64, 64), 0.5)
generator = torch.Generator().manual_seed(0)
image = 0.4 + 0.2 * torch.rand(grey.shape, generator=generator)
noisy = image + 0.05 * torch.randn(grey.shape, generator=generator)


def turn(images):
    return images[0].permute(1, 2, 0).double().numpy()


for name, target, copy in (("grey", grey, grey + 0.2), ("noisy", image, noisy)):
    for window in (4, 8, 16):
        here = relative_average_spectral_error(copy, target, window).item()
        metric = RelativeAverageSpectralError(window)
        metric.update(copy, target)
        there = rase(turn(target), turn(copy), ws=window)
        print(f"{name}, window of {window}: torchmetrics {here:.1f}, sewar {there:.2f}, ratio {here / there:.2f}")
        assert abs(metric.compute().item() / here - 1) < 1e-5
        assert abs(here / there / window**2 - 1) < 0.02, "the behaviour changed"
        if name == "grey":
            by_hand = 100 * 0.2 / 0.5
            assert abs(there - by_hand) < 0.01
PYTHON
