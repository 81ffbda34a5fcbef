#!/usr/bin/env bash
# Guess: a TIFF that says "white is zero" (photometric interpretation 0) is turned into black-is-zero by Pillow and OpenCV,
#   or left as stored, but alike for 8 and 16 bits.
# Behaviour: Pillow 13.0.0 and OpenCV 5.0.0 turn 8 bits and leave 16 bits and floats as they are. So one picture, stored
#   with more bits, is read as its negative. tifffile 2026.3.3 turns neither, so 8 bits differ between the libraries and
#   16 bits do not. Pillow refuses signed 16 bits of this kind, which it reads with "black is zero". Nothing warns.
# Cause: the table `OPEN_INFO` (PIL/TiffImagePlugin.py) has inverted raw modes, such as "L;I", for up to 8 bits, and plain
#   "I;16" and "F;32F" for the rest. OpenCV's behaviour is the same; tifffile returns stored values by design.
# Why it matters: scanned films, X-rays and documents are stored with white as zero. A data set that mixes depths, or a
#   network that was trained with one library and is explained with another one, has negatives among its images, and a
#   "black" baseline is white.
# Versions: pillow 13.0.0, opencv-python-headless 5.0.0.93, tifffile 2026.3.3, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pillow==13.0.0 opencv-python-headless==5.0.0.93 tifffile==2026.3.3 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import cv2
import numpy as np
import tifffile
from PIL import Image

ramp = np.arange(256).reshape(16, 16)
depths = {"8 bits": ramp.astype("uint8"), "16 bits": (257 * ramp).astype("uint16"), "float": (ramp / 255).astype("float32")}
readers = {
    "Pillow": lambda name: np.asarray(Image.open(name)),
    "OpenCV": lambda name: cv2.imread(name, cv2.IMREAD_UNCHANGED),
    "tifffile": tifffile.imread,
}
for depth, stored in depths.items():
    for photometric in ("miniswhite", "minisblack"):
        tifffile.imwrite("image.tif", stored, photometric=photometric)
        for library, read in readers.items():
            image = read("image.tif")
            turned = bool(image[0, 0] > image[-1, -1])
            print(f"{depth}, {photometric}, {library}: {'turned' if turned else 'as stored'}")
            np.testing.assert_array_equal(image, stored.max() - stored if turned else stored)
            expected = depth == "8 bits" and photometric == "miniswhite" and library != "tifffile"
            assert turned == expected, "the behaviour changed"
PYTHON
