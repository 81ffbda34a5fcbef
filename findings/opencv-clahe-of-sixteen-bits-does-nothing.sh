#!/usr/bin/env bash
# Guess: `cv2.createCLAHE(clipLimit=2, tileGridSize=(8, 8))`, the adaptive histogram equalisation of OpenCV, makes of an image
#   of 16 bits what it makes of the same image in bytes, only finer; a larger clip limit gives more contrast.
# Behaviour: with OpenCV 5.0.0 it leaves 16 bits as they are. An image of 512 x 512 pixels with a standard deviation of 10.2
#   grey levels has 17.0 as bytes and 10.4 as 16 bits after a clip limit of 2; limits of 1, 2, 4 and 10 give equal images of
#   16 bits, and 13.4 to 45.2 as bytes. The default of 40 gives 56.9 and 10.7. scikit-image has 47.0 for both.
# Cause: the limit is multiplied by the pixels of a tile over the number of grey levels, cut to a whole number and raised to at
#   least 1 (opencv, modules/imgproc/src/clahe.cpp): 4,096 / 65,536 for this image, so any limit below 32 becomes 1, and what
#   is cut is spread over 65,536 levels. https://github.com/opencv/opencv/issues/5953 and
#   https://github.com/opencv/opencv/issues/25837 name other differences between 8 and 16 bits.
# Why it matters: radiographs and microscope images have 12 to 16 bits, and limits of 2 to 4 are taken from examples in bytes.
#   Networks are then trained on images that count as equalised, and an ablation finds that equalisation has no effect.
# Versions: opencv-python-headless 5.0.0.93, scikit-image 0.26.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q opencv-python-headless==5.0.0.93 scikit-image==0.26.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import cv2
import numpy as np
from skimage.exposure import equalize_adapthist

rows, columns = np.indices((512, 512))
noise = np.random.default_rng(0).normal(0, 2, rows.shape)
narrow = (100 + 20 * np.sin(rows / 40) * np.sin(columns / 55) + noise).round().astype(np.uint8)
wide = narrow.astype(np.uint16) * 257
print(f"the image: {narrow.std():.1f}")
equalised = {}
for limit in (1, 2, 4, 10, 40):
    clahe = cv2.createCLAHE(clipLimit=limit, tileGridSize=(8, 8))
    as_bytes, equalised[limit] = clahe.apply(narrow), clahe.apply(wide)
    change = np.abs(equalised[limit] / 257 - narrow).max()
    print(f"clip limit {limit}: {as_bytes.std():.1f} as bytes, {equalised[limit].std() / 257:.1f} as 16 bits "
          f"(largest change {change:.1f} grey levels)")
    assert as_bytes.std() > 13 and equalised[limit].std() / 257 < 10.8 and change < 4.5, "the behaviour changed"
assert all((equalised[limit] == equalised[1]).all() for limit in (2, 4, 10)), "the behaviour changed"
by_skimage = [255 * equalize_adapthist(image, clip_limit=0.02).std() for image in (narrow, wide)]
print(f"scikit-image: {by_skimage[0]:.1f} as bytes, {by_skimage[1]:.1f} as 16 bits")
assert abs(by_skimage[0] - by_skimage[1]) < 0.1
PYTHON
