#!/usr/bin/env bash
# Guess: of image-similarity-measures, the information theoretic measure ISSM of an image and its own copy is 1, and the
#   spectral angle (SAM) 0 degrees, in bytes, as images are loaded, or in 12 bits, for which the package was made.
# Behaviour: with image-similarity-measures 0.3.6 the ISSM of equal images is 1 in 12 bits and 0 in bytes, the value of
#   unrelated ones. The SAM of equal images is 90 degrees in bytes and in 12 bits, as if they had no colour in common,
#   and that of the same numbers as floats 0. SSIM and PSNR, whose `max_p` is 4095 by default, call noise of 25 grey
#   levels in bytes .96 and 44 decibels, for .54 and 20.
# Cause: `_edge_c` (image_similarity_measures/quality_metrics.py) divides grey levels by 16 before it looks for edges,
#   so bytes have none; the correlation of no edges is 0 / 0, and `np.nan_to_num` makes a 0 of it. `sam` multiplies
#   integers in their own type, which wrap at 256 and at 65,536.
# Why it matters: the command line reads photographs in bytes and has no parameter for the range. A perfect restoration
#   is called worthless by two metrics and everything near perfect by two others.
# Versions: image-similarity-measures 0.3.6, scikit-image 0.20.0, opencv-python-headless 4.11.0.86, phasepack 1.5, scipy
#   1.11.4, numpy 1.26.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile phasepack==1.5 opencv-python-headless==4.11.0.86 scikit-image==0.20.0 \
  numpy==1.26.4 scipy==1.11.4
"$folder/venv/bin/pip" install -q --no-compile --no-deps image-similarity-measures==0.3.6 # it names OpenCV with windows
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import cv2
import numpy as np
from image_similarity_measures.quality_metrics import issm, psnr, sam, ssim

generator = np.random.default_rng(0)
smooth = cv2.GaussianBlur(generator.normal(size=(128, 128, 3)), (0, 0), 2)
smooth = (smooth - smooth.min()) / np.ptp(smooth)
images = {"12 bits": (smooth * 4095).round().astype(np.uint16), "bytes": (smooth * 255).round().astype(np.uint8)}
found = {}
for name, image in images.items():
    found[name] = issm(image, image.copy()), sam(image, image.copy()), sam(image.astype(float), image.astype(float))
    print(f"equal images in {name}: ISSM {found[name][0]:.2f}, SAM {found[name][1]:.0f} degrees, of floats "
          f"{found[name][2]:.0f}")
assert abs(found["12 bits"][0] - 1) < 1e-3 and found["bytes"][0] == 0, "the behaviour changed"
assert all(values[1] > 80 and values[2] < 0.1 for values in found.values()), "the behaviour changed"

image = images["bytes"]
noisy = (image + 25 * generator.normal(size=image.shape)).clip(0, 255).astype(np.uint8)
values = ssim(image, noisy), ssim(image, noisy, max_p=255), psnr(image, noisy), psnr(image, noisy, max_p=255)
print("noise of 25 levels: SSIM {:.2f}, with 255 as range {:.2f}; PSNR {:.0f} and {:.0f} decibels".format(*values))
assert values[0] > values[1] + 0.3 and values[2] > values[3] + 20, "the behaviour changed"
PYTHON
