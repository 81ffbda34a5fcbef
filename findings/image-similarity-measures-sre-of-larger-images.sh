#!/usr/bin/env bash
# Guess: the signal to reconstruction error ratio (SRE) in decibels is the power of the image over the mean squared error,
#   so it depends on neither the number of pixels nor the unit of brightness.
# Behaviour: with image-similarity-measures 0.3.6 it depends on both. An image of noise over brightness has 19 dB. The
#   library says 49 for bytes, 25 for the same values as shares of 1 and 73 for 16 bits. Four copies side by side, with
#   the same error in each, have 3 dB more than one.
# Cause: `sre` (image_similarity_measures/quality_metrics.py, line 320) divides the squared mean by the norm of the error
#   over the number of pixels; the norm is not squared: it grows with the root of that number, and has the unit of
#   brightness once where the signal has it twice.
# Why it matters: SRE is one of the measures that papers on sharper satellite images report; a table with bytes and one
#   with reflectances differ by 24 dB, and tiles of 512 pixels are better than tiles of 64 by 9 dB, for equal errors.
# Versions: image-similarity-measures 0.3.6, phasepack 1.5, opencv-python-headless 4.11.0.86, scikit-image 0.20.0,
#   numpy 1.26.4, scipy 1.11.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q phasepack==1.5 opencv-python-headless==4.11.0.86 scikit-image==0.20.0 numpy==1.26.4 \
    scipy==1.11.4
"$folder/venv/bin/pip" install -q --no-deps image-similarity-measures==0.3.6 # it names OpenCV with windows
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from image_similarity_measures.quality_metrics import sre

generator = np.random.default_rng(0)
image = generator.uniform(60, 196, (64, 64, 1))
made = image + generator.normal(0, 14, image.shape)
found = {}
for name, scale, copies in (("bytes", 1, 1), ("shares of 1", 1 / 255, 1), ("16 bits", 257, 1), ("four copies", 1, 2)):
    first, second = (np.tile(values * scale, (copies, copies, 1)) for values in (image, made))
    found[name] = float(sre(first, second))
    right = 10 * np.log10(first.mean() ** 2 / np.mean((first - second) ** 2))
    print(f"{name}: {found[name]:.1f} dB; from the mean squared error {right:.1f} dB")
    assert abs(right - 19) < 0.5, "the behaviour changed"
steps = [found[name] - found["bytes"] for name in found]
assert np.allclose(steps, [0, -24.07, 24.10, 3.01], atol=0.05), "the behaviour changed"
PYTHON
