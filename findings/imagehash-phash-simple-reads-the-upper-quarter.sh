#!/usr/bin/env bash
# Guess: `phash_simple` of ImageHash is a simpler perceptual hash of the whole image, as `phash` is: images whose lower
#   halves differ have different hashes.
# Behaviour: with ImageHash 4.3.2 it reads the upper quarter. Of 100 pairs of images that are equal in the upper third and
#   have nothing in common below it, all have the distance 0; by `phash` their median distance is 24 of 64 bits. Pairs
#   that are equal in the lower two thirds have a median distance of 33, as unrelated images have.
# Cause: `scipy.fftpack.dct(pixels)` transforms each row alone, where `phash` transforms rows and columns, and
#   `dct[:hash_size, …]` then keeps the first 8 of 32 rows of the image (imagehash/__init__.py).
# Why it matters: test images that are near duplicates of training images are found by such distances. Photographs with a
#   common border or sky on top count as duplicates, and a caption on top hides one.
# Versions: ImageHash 4.3.2, pillow 13.0.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ImageHash==4.3.2 pillow==13.0.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from imagehash import phash, phash_simple
from PIL import Image

random = np.random.default_rng(0)


def draw_image():
    """Draw a smooth image of 240 x 240 pixels."""
    return np.asarray(Image.fromarray(random.integers(0, 256, (8, 8), dtype=np.uint8)).resize((240, 240)))


def measure(hash_image, first, second):
    return int(hash_image(Image.fromarray(first)) - hash_image(Image.fromarray(second)))


simple, full, above = [], [], []
for _ in range(100):
    first, second = draw_image(), draw_image()
    below = np.concatenate([first[:80], second[80:]])
    simple.append(measure(phash_simple, first, below))
    full.append(measure(phash, first, below))
    above.append(measure(phash_simple, first, np.concatenate([second[:80], first[80:]])))
print(f"equal in the upper third alone: phash_simple {sum(np.equal(simple, 0))} of 100 pairs at distance 0")
print(f"phash: median distance {np.median(full):.0f}, smallest {min(full)}")
print(f"equal in the lower two thirds: phash_simple, median distance {np.median(above):.0f} of 64")
assert not any(simple) and min(full) > 4 and np.median(above) > 16, "the behaviour changed"
PYTHON
