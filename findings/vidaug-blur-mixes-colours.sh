#!/usr/bin/env bash
# Guess: `GaussianBlur(sigma)` of vidaug blurs each frame of a video in the plane, each colour for itself, whether the frames are
#   arrays or Pillow images; both are documented. `InverseOrder` plays the frames backwards.
# Behaviour: with vidaug 1.5 arrays are blurred across the colours, too. A video of one orange has no edge to blur; with a
#   sigma of 1 its (200, 40, 20) becomes (141, 81, 37), with 2 a grey of (96, 86, 76). The same frames as Pillow images stay
#   as they are. `InverseOrder` loses the first frame: of 16 it returns 15.
# Cause: `scipy.ndimage.gaussian_filter(img, sigma=self.sigma)` (vidaug/augmentors/geometric.py) takes one sigma for all three
#   axes of an array of height, width and colour. `reversed(range(1, nb_images))` (temporal.py) ends at frame 1.
# Why it matters: recipes for action recognition apply the blur to arrays, so networks see grey videos where blurred ones are
#   meant, and robustness to blur is robustness to colour. Two readers of the same videos train on different data.
# Versions: vidaug 1.5, scipy 1.17.1, numpy 2.4.6, scikit-image 0.26.0, opencv-python-headless 5.0.0.93, pillow 13.0.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 scipy==1.17.1 scikit-image==0.26.0 opencv-python-headless==5.0.0.93 pillow==13.0.0
"$folder/venv/bin/pip" install -q --no-deps vidaug==1.5 # it names a package for OpenCV with windows
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from PIL import Image, ImageFilter  # noqa: F401, vidaug uses the filter without importing it
from vidaug.augmentors import GaussianBlur, InverseOrder

orange = np.full((32, 32, 3), (200, 40, 20), dtype=np.uint8)
clip = [orange] * 4
found = {}
for sigma in (0.5, 1, 2):
    array = GaussianBlur(sigma)(clip)[0][16, 16]
    picture = np.asarray(GaussianBlur(sigma)([Image.fromarray(frame) for frame in clip])[0])[16, 16]
    found[sigma] = array.astype(int), picture.astype(int)
    print(f"sigma {sigma}: {orange[0, 0].tolist()} becomes {array.tolist()} in arrays, {picture.tolist()} in Pillow images")
frames = [np.full((4, 4, 3), number, dtype=np.uint8) for number in range(16)]
order = [int(frame[0, 0, 0]) for frame in InverseOrder()(frames)]
print(f"InverseOrder of 16 frames: {order}")
assert all((picture == orange[0, 0]).all() for _, picture in found.values())
assert found[1][0][0] < 150 and np.ptp(found[2][0]) < 25, "the behaviour changed"
assert order == list(range(15, 0, -1)), "all frames are back"
PYTHON
