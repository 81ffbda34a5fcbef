#!/usr/bin/env bash
# Guess: `FancyPCA` of albumentations is the colour augmentation of AlexNet (Krizhevsky and others, 2012): it adds one
#   colour to all pixels of an image, a random mixture of the principal components times their variances, so the whole
#   picture becomes warmer, cooler, lighter or darker.
# Behaviour: with albumentations 2.0.8 and the default, alpha .1, not one byte of a smooth, colourful image changes in
#   50 calls. With alpha 10, a hundred times more, single pixels move by tens of levels, the mean colour by less than
#   .1, a picture of one colour not at all. By the paper's formula the colour of all pixels moves by .5 levels with
#   alpha .1 and by 47 with 10.
# Cause: `fancy_pca` (albumentations/augmentations/pixel/functional.py) multiplies components and variances with each
#   pixel's distance from the mean colour, so it is a small linear change of contrast, whose mean is zero. The paper
#   adds their product with the random numbers itself.
# Why it matters: the transform is named as the one of AlexNet in papers and pipelines, and takes its time in each
#   epoch. Invariance to the colour of light, which it was made for, is not learned.
# Versions: albumentations 2.0.8, albucore 0.0.24, opencv-python-headless 5.0.0.93, numpy 2.4.6.
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

generator = np.random.default_rng(0)
image = cv2.GaussianBlur(generator.normal(size=(128, 128, 3)), (0, 0), 4)
image = ((image - image.min()) / np.ptp(image) * 255).round().astype(np.uint8)
flat = np.full((16, 16, 3), (200, 80, 80), np.uint8)
variances, components = np.linalg.eigh(np.cov((image / 255).reshape(-1, 3), rowvar=False))

share, shift = {}, {}
for alpha in (0.1, 10):
    transform = albumentations.FancyPCA(alpha=alpha, p=1)
    after = np.stack([transform(image=image)["image"] for _ in range(50)]).astype(float)
    share[alpha], largest = (after != image).mean(), np.abs(after - image).max()
    shift[alpha] = np.abs(after.mean((1, 2)) - image.mean((0, 1))).max()
    drawn = alpha * generator.normal(size=(1000, 3)) * variances
    due = 255 * np.linalg.norm(drawn @ components.T, axis=1).mean()
    same = np.array_equal(transform(image=flat)["image"], flat)
    print(f"alpha {alpha}: {share[alpha]:.0%} of the bytes changed, by up to {largest:.0f}; the mean colour by up to "
          f"{shift[alpha]:.2f} levels, by the paper {due:.2f} in the mean; a flat picture stays as it is: {same}")
    assert same, "the behaviour changed"
assert share[0.1] == 0 and share[10] > 0.5 and shift[10] < 1 < due, "the behaviour changed"
PYTHON
