#!/usr/bin/env bash
# Guess: `tifffile.imwrite` stores an array (height, width, bands) as one picture, whatever the number of bands is.
# Behaviour: with 3 or 4 bands it is one picture; with 2, 5 or more it is `height` pictures of `bands` x `width` pixels,
#   also with photometric="minisblack". An array (n, height, width) is n pictures for n = 2 or 5, and one RGB or RGBA
#   picture for n = 3 or 4 (with a warning). `tifffile.imread` returns every array as it was, from a note in the file.
# Cause: `TiffWriter.write` chooses RGB if the last (or first) axis has the length 3 or 4, and else no axis of samples;
#   planarconfig="contig" is what an array of other bands needs.
# Why it matters: Pillow, and so torchvision and `datasets`, read the first picture: of an image of two fluorescence
#   channels or five satellite bands, one row of pixels, turned on its side; of a stack of three slices, a colour picture.
# Versions: tifffile 2026.3.3, pillow 13.0.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tifffile==2026.3.3 pillow==13.0.0 numpy==2.4.6
"$folder/venv/bin/python" - "$folder" 2>/dev/null <<'PYTHON'
import sys

import numpy as np
import tifffile
from PIL import Image

path = f"{sys.argv[1]}/image.tif"
expected = {
    (40, 60, 2): (40, (2, 60), "L"),
    (40, 60, 3): (1, (60, 40), "RGB"),
    (40, 60, 4): (1, (60, 40), "RGBA"),
    (40, 60, 5): (40, (5, 60), "L"),
    (2, 40, 60): (2, (60, 40), "L"),
    (3, 40, 60): (1, (60, 40), "RGB"),
    (4, 40, 60): (1, (60, 40), "RGBA"),
    (5, 40, 60): (5, (60, 40), "L"),
}
rng = np.random.default_rng(0)
for shape, seen in expected.items():
    values = rng.integers(0, 256, shape, np.uint8)
    tifffile.imwrite(path, values)
    assert np.array_equal(tifffile.imread(path), values), "tifffile reads what it wrote"
    with Image.open(path) as image:
        print(f"{shape}: {image.n_frames} pictures of {image.width} x {image.height} pixels, {image.mode}")
        assert (image.n_frames, image.size, image.mode) == seen, "the behaviour changed"
bands = rng.integers(0, 256, (40, 60, 5), np.uint8)
tifffile.imwrite(path, bands, photometric="minisblack")
with Image.open(path) as image:
    assert np.array_equal(np.asarray(image), bands[0]), "the first picture is the first row of pixels"
tifffile.imwrite(path, bands, photometric="minisblack", planarconfig="contig")
with tifffile.TiffFile(path) as file:
    assert (len(file.pages), file.pages[0].shape) == (1, (40, 60, 5)), "one picture of five bands"
PYTHON
