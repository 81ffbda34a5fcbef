#!/usr/bin/env bash
# Guess: the superpixels that `skimage.segmentation.slic` finds in one part of an image depend on that part; a single pixel
#   in the corner changes its own superpixel, at most its neighbours.
# Behaviour: with scikit-image 0.26.0, one white pixel in the corner of a dark image changes the borders of all
#   superpixels: of the borders in either segmentation, 11 % are in both, and there are 61 superpixels instead of 49.
#   The image times two, without the white pixel, has the same segmentation to the pixel.
# Cause: `slic` first stretches the image to [0, 1] by its own smallest and largest value, over all channels together (a
#   note in its documentation says that it stretches), so one pixel scales the
#   colours of all, and with them the meaning of `compactness`.
# Why it matters: LIME, KernelSHAP and occlusion by superpixels explain whole segments. A speck, a hot pixel, a logo or a
#   burnt-in letter in a dark scan gives other segments, so another explanation of an unchanged object.
# Versions: scikit-image 0.26.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-image==0.26.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from scipy import ndimage
from skimage.segmentation import slic

generator = np.random.default_rng(0)
image = ndimage.gaussian_filter(generator.random((128, 128, 3)), (4, 4, 0))
image = 0.3 * (image - image.min()) / np.ptp(image)
speck = image.copy()
speck[0, 0] = 1


def find_borders(segments):
    return np.concatenate([(segments[:, 1:] != segments[:, :-1]).ravel(), (segments[1:] != segments[:-1]).ravel()])


def compare(one, other):
    """Return the share of the borders in either segmentation that are in both."""
    first, second = find_borders(one), find_borders(other)
    return (first & second).sum() / (first | second).sum()


plain, doubled, specked = (slic(one, n_segments=60, start_label=0) for one in (image, 2 * image, speck))
print(f"times two: {100 * compare(plain, doubled):.0f} % of the borders agree")
print(f"one white pixel: {100 * compare(plain, specked):.0f} % of the borders agree;", plain.max() + 1, "and", specked.max() + 1)
assert compare(plain, doubled) == 1
assert compare(plain, specked) < 0.3, "one pixel changes less now"
PYTHON
