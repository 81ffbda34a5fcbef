#!/usr/bin/env bash
# Guess: `ISONoise(color_shift=(.05, .05), intensity=(1, 1))` of albumentations moves the hue of each pixel by a random
#   part of the colour circle with a deviation of .05, that is 18 degrees: its documentation calls 1 a full turn.
# Behaviour: with albumentations 2.0.8 the deviation is .05 degrees. In bytes no pixel of a red area changes; the
#   largest value, 1, moves hues by 1 degree, for a full turn. The default, .01 to .05 times an intensity of .1 to .5,
#   is at most .025 degrees. Brightness noise of an area of one colour is 0 as well, and that of others only brightens.
# Cause: `iso_noise` (albumentations/augmentations/pixel/functional.py) adds the number to the hue of OpenCV, which has
#   degrees for floats, and the bytes have been turned into floats before. A Poisson number, never below 0, times the
#   darkness is added to the lightness.
# Why it matters: colour noise of cameras is one half of the transform's description, and it is one degree at most at
#   each allowed setting. Networks are called robust against it, and ablations of `color_shift` compare nothing.
# Versions: albumentations 2.0.8, albucore 0.0.24, opencv-python-headless 5.0.0.93, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile albumentations==2.0.8 albucore==0.0.24 opencv-python-headless==5.0.0.93 \
  scipy==1.17.1 numpy==2.4.6
export NO_ALBUMENTATIONS_UPDATE=1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import albumentations
import cv2
import numpy as np
from scipy.stats import circstd

red = np.full((200, 200, 3), (200, 80, 80), np.uint8)
spread = {}
for shift in (0.05, 0.5, 1):
    transform = albumentations.ISONoise(color_shift=(shift, shift), intensity=(1, 1), p=1)
    for image in (red, red.astype(np.float32) / 255):
        noisy = transform(image=image)["image"]
        scaled = noisy.astype(np.float32) / (255 if noisy.dtype == np.uint8 else 1)
        hues = cv2.cvtColor(scaled, cv2.COLOR_RGB2HLS)[..., 0]
        spread[shift, image.dtype.name] = circstd(hues, high=360)
        changed = (noisy != image).any(-1).mean()
        print(f"color_shift {shift}, {image.dtype}: hues deviate by {spread[shift, image.dtype.name]:.3f} degrees, "
              f"documented {360 * shift:.0f}; {changed:.0%} of the pixels changed")
assert spread[0.05, "uint8"] == 0, "the behaviour changed"
assert all(abs(spread[shift, "float32"] / shift - 1) < 0.1 for shift in (0.05, 0.5, 1)), "the behaviour changed"

transform = albumentations.ISONoise(p=1)
image = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.float32) / 255
lightness = [cv2.cvtColor(one, cv2.COLOR_RGB2HLS)[..., 1] for one in (image, transform(image=image)["image"])]
change = lightness[1] - lightness[0]
print(f"default, lightness: smallest change {change.min():.4f}, largest {change.max():.4f}")
assert change.min() > -1e-3, "the behaviour changed"
PYTHON
