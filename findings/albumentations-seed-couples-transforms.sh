#!/usr/bin/env bash
# Guess: `albumentations.Compose(transforms, seed=0)` makes the same random choices in each run, and transforms of one
#   pipeline stay independent: of a horizontal and a vertical flip with p = .5, a quarter of the images gets both.
# Behaviour: with albumentations 2.0.8 and a seed, half of 2,000 images get both flips and half get none; not one is flipped
#   once. Two `GaussNoise` of .1 add up to a standard deviation of .195 instead of .14, because both add the same noise.
#   Two `PixelDropout` of 30 % hit the same pixels, so 30 % are lost instead of 51 %. Without `seed` all is as guessed.
# Cause: `Compose.set_random_seed` (albumentations/core/composition.py) gives each transform its own generator with the same
#   seed, so transforms that draw alike draw the same numbers.
# Why it matters: the argument that makes an experiment reproducible changes what is trained on: a network sees images as
#   they are and turned by 180 degrees, and no mirrored one. Masks that remove features in two steps remove them once.
# Versions: albumentations 2.0.8, numpy 2.4.6, opencv-python-headless 5.0.0.93.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q albumentations==2.0.8 numpy==2.4.6 opencv-python-headless==5.0.0.93
NO_ALBUMENTATIONS_UPDATE=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import albumentations as A
import numpy as np

square = np.arange(16, dtype=np.uint8).reshape(4, 4, 1).repeat(3, 2)
grey, white = np.full((300, 300, 3), 128, np.uint8), np.full((200, 200, 3), 200, np.uint8)
turned = {"none": square, "one": square[:, ::-1], "other": square[::-1], "both": square[::-1, ::-1]}
found = {}
for seed in (None, 0):
    flips = A.Compose([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5)], seed=seed)
    seen = [flips(image=square)["image"] for _ in range(2000)]
    shares = {name: np.mean([np.array_equal(image, one) for one in seen]) for name, image in turned.items()}
    noise = A.Compose([A.GaussNoise(std_range=(0.1, 0.1), p=1) for _ in range(2)], seed=seed)
    deviation = np.std(noise(image=grey)["image"] / 255)
    dropouts = [A.PixelDropout(dropout_prob=0.3, drop_value=value, p=1) for value in (0, 7)]
    lost = (A.Compose(dropouts, seed=seed)(image=white)["image"] != 200).any(-1).mean()
    found[seed] = shares, deviation, lost
    flipped = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    print(f"seed={seed}: flips {flipped}; noise {deviation:.3f}; pixels lost {lost:.1%}")

shares, deviation, lost = found[None]
assert all(0.2 < share < 0.3 for share in shares.values()) and deviation < 0.15 and 0.49 < lost < 0.53
shares, deviation, lost = found[0]
assert shares["one"] == shares["other"] == 0, "transforms are independent now"
assert deviation > 0.18 and lost < 0.32
PYTHON
