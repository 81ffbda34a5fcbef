#!/usr/bin/env bash
# Guess: `skimage.filters.sobel` of a colour image is the gradient across the picture, of each channel or of their mean;
#   on an area of one colour it is 0.
# Behaviour: with scikit-image 0.26.0 it is a third gradient besides: from red to green to blue. A sheet of one colour
#   (.9, .2, .1) has "edges" of .40, .46 and .06 everywhere, and a grey sheet 0. On a photograph-like image of soft blobs
#   the map is the saturation rather than the edges: it correlates .88 with the differences of channels and .06 with the
#   gradient across the picture. `scharr`, `prewitt`, `farid` and `laplace` do the same.
# Cause: `_generic_edge_filter` (skimage/filters/edges.py) filters along every axis of an array, as the formula in the
#   documentation says, and has no argument that names channels, unlike `gaussian`. With `axis=(0, 1)` the third gradient
#   is left out, and channels are still smoothed into each other.
# Why it matters: a Sobel filter is the control without a network to which maps of networks are compared. As a ranking of
#   a colour image this one names the most colourful pixels.
# Versions: scikit-image 0.26.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-image==0.26.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from scipy import ndimage
from skimage import filters

flat = np.ones((32, 32, 3)) * [0.9, 0.2, 0.1]
print("one colour:", {name: getattr(filters, name)(flat)[16, 16].round(2).tolist() for name in ("sobel", "scharr")})
print("one grey:  ", filters.sobel(np.full((32, 32, 3), 0.4))[16, 16].round(2).tolist())

generator = np.random.default_rng(0)
blobs = ndimage.gaussian_filter(generator.random((128, 128, 3)), (6, 6, 0))
blobs = (blobs - blobs.min()) / np.ptp(blobs)
edges = filters.sobel(blobs).mean(-1)
across = np.hypot(*(ndimage.sobel(blobs, axis) for axis in (0, 1))).mean(-1)
colour = np.abs(np.diff(blobs, axis=-1)).mean(-1)
inner = (slice(2, -2),) * 2
with_colour, with_picture = (np.corrcoef(edges[inner].ravel(), one[inner].ravel())[0, 1] for one in (colour, across))
print(f"blobs: correlation with differences of channels {with_colour:.2f}, with the gradient {with_picture:.2f}")
assert filters.sobel(flat).min() > 0.05, "flat colours have no edges now"
assert abs(filters.sobel(np.full((32, 32, 3), 0.4))).max() < 1e-9
assert with_colour > 0.8 > 0.3 > with_picture, "the map is another one now"
PYTHON
