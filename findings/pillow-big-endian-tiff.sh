#!/usr/bin/env bash
# Guess: Pillow reads a TIFF file alike, whether its values are compressed or not.
# Behaviour: of big-endian TIFF with Deflate compression, Pillow 13.0.0 returns 32-bit floats, signed 32-bit and signed
#   16-bit integers with their bytes swapped: 1.0 becomes 4.6e-41. Without compression, or little-endian, they are right.
# Cause: libtiff decompresses to the machine's byte order; `TiffImageFile._setup` (PIL/TiffImagePlugin.py) changes the raw
#   mode for "I;16", ";16B" and ";16L" alone, and not for "F;32BF", "I;32BS" and "I;16BS".
# Why it matters: elevation models and medical images are stored so; a network sees noise, and nothing warns.
# Versions: pillow 13.0.0, tifffile 2026.3.3, imagecodecs 2026.3.6, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pillow==13.0.0 tifffile==2026.3.3 imagecodecs==2026.3.6 numpy==2.4.6
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import numpy as np
import tifffile
from PIL import Image

for kind in ("f4", "i4", "i2"):
    values = np.arange(1, 65).reshape(8, 8)
    for order in "<>":
        for compression in (None, "zlib"):
            path = f"{sys.argv[1]}/{kind}.tif"
            tifffile.imwrite(path, values.astype(kind), byteorder=order, compression=compression)
            assert np.array_equal(tifffile.imread(path), values), "another decoder reads the file as it was written"
            seen = np.asarray(Image.open(path))
            right, expected = np.array_equal(seen, values), not (order == ">" and compression)
            print(f"{kind} {order} {compression or 'uncompressed'}: Pillow reads {seen[0, 0]!r} for 1")
            assert right == expected, "the behaviour changed"
PYTHON
