#!/usr/bin/env bash
# Guess: `compute_haralick_features(im_label, im_intensity)` of HistomicsTK describes the texture of each labelled
#   nucleus, as its other features do ("26 Haralick texture features for each object"), so what lies around a nucleus
#   changes nothing, and a nucleus of one grey has no contrast. Images may be integers up to 255 or floats up to 1, as
#   documented.
# Behaviour: with HistomicsTK 1.4.0 a round nucleus of the single grey 80 has the contrast 11 on a bright background of
#   200 and 18 on a noisy one; by its own pixels it has 0 on both. A textured image as floats in [0, 1] has the contrast
#   0 and the angular second moment 1 everywhere; the same image in bytes has 16 and .01.
# Cause: the function (histomicstk/features/compute_haralick_features.py) takes the bounding box, one row and one column
#   more than it, and no mask, though its `graycomatrixext` accepts one. It then turns the piece into bytes by
#   `astype(np.uint8)`, before grey limits apply; 16 bits keep their lower half.
# Why it matters: the features grade tumours and rank nuclei in published tables. In crowded tissue they measure the
#   neighbours and the shape in the box; a normalised image makes all nuclei equal, and the columns become constants
#   without a word.
# Versions: HistomicsTK 1.4.0, scikit-image 0.26.0, pandas 3.1.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile scikit-image==0.26.0 pandas==3.1.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-compile --no-deps histomicstk==1.4.0 # the rest that it names reads slides
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import numpy as np

base = importlib.util.find_spec("histomicstk").submodule_search_locations[0]
for name in ("", "/features"):  # without the parts that need large images
    package = types.ModuleType("histomicstk" + name.replace("/", "."))
    package.__path__ = [base + name]
    sys.modules[package.__name__] = package
from histomicstk.features.compute_haralick_features import compute_haralick_features
from histomicstk.features.graycomatrixext import graycomatrixext

rows, columns = np.indices((101, 101))
label = ((rows - 50) ** 2 + (columns - 50) ** 2 <= 20**2).astype(int)
generator = np.random.default_rng(0)
OFFSETS = np.array([[0, 1], [1, 0], [1, 1], [1, -1]])


def compute(image):
    """Return contrast and angular second moment of the nucleus by the package, and the contrast by its own pixels."""
    found = compute_haralick_features(label, image).iloc[0]
    counts = graycomatrixext(image.astype(np.uint8), im_roi_mask=label, offsets=OFFSETS, num_levels=32, symmetric=True,
                             normed=True, exclude_boundary=True)
    distance = np.square(np.subtract.outer(np.arange(32), np.arange(32)))
    contrast = (distance[..., None] * counts).sum((0, 1)).mean()
    return found["Haralick.Contrast.Mean"], found["Haralick.ASM.Mean"], contrast


backgrounds = {"bright": np.full(label.shape, 200), "noisy": generator.integers(150, 256, label.shape), "same": 80}
contrasts = {}
for name, background in backgrounds.items():
    image = np.where(label, 80, background).astype(np.uint8)
    contrasts[name], _, own = compute(image)
    print(f"flat nucleus, {name} background: contrast {contrasts[name]:.1f}, by its own pixels {own:.1f}")
    assert own == 0
assert contrasts["bright"] > 10 and contrasts["noisy"] > 17 and contrasts["same"] == 0, "the behaviour changed"

texture = generator.integers(60, 140, label.shape).astype(np.uint8)
moments = {}
for name, image in {"bytes": texture, "floats in [0, 1]": texture / 255, "16 bits": texture * np.uint16(256)}.items():
    contrast, moments[name], _ = compute(image)
    print(f"textured image as {name}: contrast {contrast:.1f}, angular second moment {moments[name]:.2f}")
assert moments["bytes"] < 0.02 and moments["floats in [0, 1]"] == moments["16 bits"] == 1, "the behaviour changed"
PYTHON
