#!/usr/bin/env bash
# Guess: cleanvision's `exact_duplicates` are images with the same pixels, whatever their files look like.
# Behaviour: with cleanvision 0.3.7 two images with palettes are exact duplicates if their numbers of colours are equal: a
#   picture in reds and one in blues, of which no pixel is alike. An image and the same image with its palette in another
#   order, or as RGB, are none; only the search for near duplicates finds them. Images of 40 x 60 and 60 x 40 pixels with
#   the same bytes are exact duplicates, too.
# Cause: `get_hash` (cleanvision/issue_managers/duplicate_issue_manager.py) hashes `numpy.asarray(image)` of the image as it
#   was opened, which for a palette are indices, and without its shape.
# Why it matters: exact duplicates are what is deleted without a look. Drawings, icons, segmentation masks and quantised
#   screenshots come with palettes, and such images of two classes often differ in colour alone.
# Versions: cleanvision 0.3.7, pillow 13.0.0, ImageHash 4.3.2, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q cleanvision==0.3.7 pillow==13.0.0 ImageHash==4.3.2 numpy==2.4.6
mkdir "$folder/images"
"$folder/venv/bin/python" -W ignore - "$folder/images" 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import sys
from pathlib import Path

import numpy as np
from cleanvision import Imagelab
from PIL import Image

folder, generator = Path(sys.argv[1]), np.random.default_rng(0)
indices = generator.integers(0, 16, (40, 60)).astype(np.uint8)
reds, blues = np.zeros((2, 16, 3), np.uint8)
reds[:, 0] = blues[:, 2] = 100 + 10 * generator.permutation(16)
order = generator.permutation(16)


def save(name, numbers, palette):
    image = Image.fromarray(numbers, "P")
    image.putpalette(palette.tobytes())
    image.save(folder / name)
    return np.array(image.convert("RGB"))


red = save("reds.png", indices, reds)
blue = save("blues.png", indices, blues)
again = save("reds-in-other-order.png", np.argsort(order)[indices].astype(np.uint8), reds[order])
Image.fromarray(red).save(folder / "reds-as-rgb.png")
noise = generator.integers(0, 256, (40, 60, 3)).astype(np.uint8)
Image.fromarray(noise).save(folder / "wide.png")
Image.fromarray(noise.reshape(60, 40, 3)).save(folder / "high.png")
assert (red != blue).any(-1).all() and np.array_equal(red, again)

lab = Imagelab(data_path=str(folder))
lab.find_issues({"exact_duplicates": {}, "near_duplicates": {}}, n_jobs=1, verbose=False)
found = {kind: [sorted(Path(one).name for one in some) for some in lab.info[kind]["sets"]]
         for kind in ("exact_duplicates", "near_duplicates")}
print(found)
assert sorted(found["exact_duplicates"]) == [["blues.png", "reds.png"], ["high.png", "wide.png"]], "colours count now"
assert not any({"reds.png", "reds-as-rgb.png"} <= set(some) for some in found["exact_duplicates"])
PYTHON
