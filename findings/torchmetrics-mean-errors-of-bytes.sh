#!/usr/bin/env bash
# Guess: `mean_absolute_error` and `mean_squared_error` of torchmetrics, given two images of bytes (uint8) as decoders
#   return them, give the error in grey levels: both functions convert what is not a floating-point number to float.
# Behaviour: with torchmetrics 1.9.0 differences stay bytes and wrap round at 256. Two images that differ by -20 to 20
#   grey levels, 10.4 on average, have a mean absolute error of 125; an image one level brighter everywhere has 1, one
#   level darker 255. Squares wrap, too: 77 instead of 143, and a difference of 16 levels everywhere has the error 0.
#   `peak_signal_noise_ratio` of the same images is right.
# Cause: `_mean_absolute_error_update` and `_mean_squared_error_update` (torchmetrics/functional/regression/mae.py,
#   mse.py) test `preds.is_floating_point` without calling it; a method is true, so nothing is converted.
# Why it matters: reconstructions, counterfactuals and adversarial images are compared in bytes, as they are stored.
#   The error depends on which image comes first, and a worse image may have the smaller squared error.
#   torchmetrics' issue 2787 reports PSNR, which converts since; no issue on the two errors was found.
# Versions: torchmetrics 1.9.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import math

import torch
from torchmetrics import MeanAbsoluteError, MeanSquaredError
from torchmetrics.functional import mean_absolute_error, mean_squared_error
from torchmetrics.functional.image import peak_signal_noise_ratio

generator = torch.Generator().manual_seed(0)
image = torch.randint(20, 236, (1, 3, 32, 32), dtype=torch.uint8, generator=generator)
noise = torch.randint(-20, 21, image.shape, generator=generator)
noisy = (image.int() + noise).byte()
absolute, squared = noise.double().abs().mean().item(), noise.double().square().mean().item()

found = mean_absolute_error(noisy, image).item(), mean_squared_error(noisy, image).item()
print(f"absolute error {found[0]:.1f}, right is {absolute:.1f}; squared {found[1]:.1f}, right is {squared:.1f}")
assert found[0] > 10 * absolute and found[1] < 0.6 * squared, "the behaviour changed"
assert MeanAbsoluteError()(noisy, image).item() == found[0], "the behaviour changed"
assert MeanSquaredError()(noisy, image).item() == found[1], "the behaviour changed"

brighter, darker = (mean_absolute_error(image + shift, image).item() for shift in (1, -1))
print(f"one level brighter {brighter}, darker {darker}; 16 levels, squared: {mean_squared_error(image + 16, image)}")
assert (brighter, darker) == (1, 255) and mean_squared_error(image + 16, image) == 0, "the behaviour changed"

# beside it: floats are right, and so is PSNR of the bytes
assert math.isclose(mean_absolute_error(noisy.float(), image.float()), absolute, rel_tol=1e-5)
assert math.isclose(mean_squared_error(noisy.float(), image.float()), squared, rel_tol=1e-5)
right = 10 * math.log10(255**2 / squared)
assert math.isclose(peak_signal_noise_ratio(noisy, image, data_range=255.0), right, rel_tol=1e-5)
PYTHON
