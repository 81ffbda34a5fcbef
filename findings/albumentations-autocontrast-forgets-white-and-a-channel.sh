#!/usr/bin/env bash
# Guess: `AutoContrast(method="pil")` of albumentations stretches each channel "like PIL.ImageOps.autocontrast": the
#   darkest level becomes 0, the brightest 255, and an image that has both already is left as it is. `ignore=0` leaves
#   pixels of the level 0 out ("this intensity value will not be modified"), for a black border.
# Behaviour: with albumentations 2.0.8 white is not counted. Tissue with levels from 100 to 200 on a white background
#   becomes 0 to 255, its brightest part as white as the background; Pillow keeps a distance of 91. An image with all
#   levels from 0 to 254 and white loses its brightest grey. `ignore=0` leaves the whole red channel as it is and
#   stretches green and blue; `ignore=1` and `ignore=2` leave green and blue.
# Cause: `auto_contrast` (albumentations/augmentations/pixel/functional.py) calls `cv2.calcHist` with the range [0,
#   255], whose end OpenCV leaves out, and compares `ignore` with the number of the channel as well as with levels.
# Why it matters: scans and documents are mostly white, and there the lightest structures vanish in training. A black
#   border that was to be ignored gives a colour cast, grey becomes green and blue, and the parameter looks as if it
#   worked.
# Versions: albumentations 2.0.8, albucore 0.0.24, opencv-python-headless 5.0.0.93, pillow 13.0.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile albumentations==2.0.8 albucore==0.0.24 opencv-python-headless==5.0.0.93 \
  pillow==13.0.0 scipy==1.17.1 numpy==2.4.6
export NO_ALBUMENTATIONS_UPDATE=1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import albumentations
import numpy as np
from PIL import Image, ImageOps


def stretch(image, ignore=None):
    """Return the image after the transform of albumentations, and after the function of Pillow."""
    transform = albumentations.AutoContrast(method="pil", cutoff=0, ignore=ignore, p=1)
    pillow = ImageOps.autocontrast(Image.fromarray(image), ignore=ignore)
    return transform(image=image.copy())["image"], np.array(pillow)


slide = np.full((64, 64, 3), 255, np.uint8)
slide[16:48, 16:48] = np.linspace(100, 200, 32).round()[:, None, None]
found, pillow = stretch(slide)
print(f"tissue of 100 to 200 on white: {found[16, 16, 0]} to {found[47, 47, 0]}, of Pillow {pillow[16, 16, 0]} to "
      f"{pillow[47, 47, 0]}")
assert found[47, 47].tolist() == [255] * 3 and pillow[47, 47, 0] == 164, "the behaviour changed"
grey = np.arange(256, dtype=np.uint8).repeat(16).reshape(64, 64)
found, pillow = stretch(np.stack([grey] * 3, -1))
print(f"all levels: {len(np.unique(found))} are left, of Pillow {len(np.unique(pillow))}")
assert len(np.unique(found)) == 255 and len(np.unique(pillow)) == 256, "the behaviour changed"

generator = np.random.default_rng(0)
bordered = np.repeat(generator.integers(50, 150, (64, 64, 1)), 3, axis=2).astype(np.uint8)
bordered[:8] = bordered[8:16] = 0
for ignore in range(3):
    found = stretch(bordered, ignore)[0][16:]
    ranges = [(int(found[..., channel].min()), int(found[..., channel].max())) for channel in range(3)]
    print(f"a grey image with a black border, ignore={ignore}: red, green and blue have the levels {ranges}")
    assert [channel for channel in range(3) if ranges[channel] == (50, 149)] == [ignore], "the behaviour changed"
PYTHON
