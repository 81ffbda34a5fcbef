#!/usr/bin/env bash
# Guess: the glass blur of ImageNet-C shuffles pixels within a few pixels, as its comments say ("locally shuffle
#   pixels", "swap"), so light is spread and none is lost: equal spots stay equally bright.
# Behaviour: with imagecorruptions-imaug 1.1.5 pixels are copied over others. At severity 3 equal spots have .1 to 2.2
#   times their brightness, with a standard deviation of .42; with real swaps .01. Of 14,400 colours the shuffle leaves
#   4,244. A grey array is shuffled rightly, but `corrupt` gives it three channels first.
# Cause: `_shuffle_pixels_njit_glass_blur` (imagecorruptions/corruptions.py) exchanges two pixels by one assignment of a
#   pair. Of a colour image both are views, and the first half of the assignment overwrites what the second half reads;
#   numba does as NumPy.
# Why it matters: the line is that of the authors' script (`glass_blur`, ImageNet-C/create_c/make_imagenet_c.py of
#   https://github.com/hendrycks/robustness), and imgaug and alibi-detect have it, too. The published corruption removes
#   details and multiplies others; who swaps makes another one, and their accuracies cannot be compared.
# Versions: imagecorruptions-imaug 1.1.5, numba 0.68.1, scikit-image 0.26.0, scipy 1.17.1, opencv-python 5.0.0.93,
#   pillow 13.0.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q imagecorruptions-imaug==1.1.5 numba==0.68.1 scikit-image==0.26.0 scipy==1.17.1 \
  opencv-python==5.0.0.93 pillow==13.0.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from imagecorruptions import corrupt, corruptions
from skimage.filters import gaussian

SIDE, SIGMA, REACH, ROUNDS = 120, 1, 2, 3  # the last three are those of severity 3
MIDDLES = [(row, column) for row in range(12, SIDE, 24) for column in range(12, SIDE, 24)]
image = np.zeros((SIDE, SIDE, 3), np.uint8)
for row, column in MIDDLES:
    image[row - 1 : row + 2, column - 1 : column + 2] = 255


def blur_by_hand(seed):
    """Return the glass blur of the image with real swaps."""
    generator = np.random.default_rng(seed)
    pixels = (gaussian(image / 255, sigma=SIGMA, channel_axis=-1) * 255).astype(np.uint8)
    for _ in range(ROUNDS):
        for row in range(SIDE - REACH, REACH, -1):
            for column in range(SIDE - REACH, REACH, -1):
                one, other = (row, column), tuple(generator.integers(-REACH, REACH, 2) + (row, column))
                pixels[one], pixels[other] = pixels[other].copy(), pixels[one].copy()
    return gaussian(pixels / 255, sigma=SIGMA, channel_axis=-1) * 255


def measure(blurred):
    """Return the brightness of each spot's surroundings, in multiples of that before."""
    before = image[:24, :24].sum(dtype=float)
    spots = [blurred[row - 12 : row + 12, column - 12 : column + 12] for row, column in MIDDLES]
    return [spot.sum(dtype=float) / before for spot in spots]


library = [corrupt(image, severity=3, corruption_name="glass_blur", seed=seed) for seed in range(4)]
found = np.array([measure(blurred) for blurred in library])
right = np.array([measure(blur_by_hand(seed)) for seed in range(2)])
print(f"spots: {found.min():.2f} to {found.max():.2f}, deviation {found.std():.2f}; with swaps {right.std():.2f}")
numbers = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
colours = np.stack([numbers >> 8, numbers & 255, np.zeros_like(numbers)], -1).astype(np.uint8)
shuffle = corruptions._shuffle_pixels_njit_glass_blur
left = len(np.unique(shuffle(SIDE, SIDE, colours, (SIGMA, REACH, ROUNDS), 0).reshape(-1, 3), axis=0))
grey = len(np.unique(shuffle(SIDE, SIDE, numbers.copy(), (SIGMA, REACH, ROUNDS), 0)))
print(f"of {SIDE * SIDE} colours {left} are left, of as many greys {grey}")
assert right.std() < 0.05 and grey == SIDE * SIDE
assert found.std() > 0.2 and left < 0.6 * SIDE * SIDE, "the behaviour changed"
PYTHON
