#!/usr/bin/env bash
# Guess: `fps` of pyfeats gives two sums over the Fourier power spectrum of an image, the radial one over rings (how coarse
#   is the texture?) and the angular one over wedges (which way does it run?). So a shifted image has the same, a coarser or
#   a turned one has others.
# Behaviour: with pyfeats 1.0.1 it is the other way round. Shifting stripes by a quarter of their period takes the "angular
#   sum" from 4,525 to 0 and the "radial sum" from 8,128 to 9,303. Stripes turned by 90 degrees have the same two numbers, and
#   so have stripes that are four times as fine.
# Cause: `fps` (pyfeats/textural/fps.py) sums the squares of the real parts of the transform over all frequencies, and those
#   of the imaginary parts. By Parseval's theorem both together are the image's mean square, times a constant; how it is
#   divided depends on where the image begins.
# Why it matters: the two are columns of tables of texture (ultrasound of plaques, skin, fields). The first repeats brightness and
#   contrast, the second changes with the crop, and an importance given to "angular sum" says nothing about direction.
# Versions: pyfeats 1.0.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps pyfeats==1.0.1 # the rest of what it names serves other features
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import numpy as np

base = importlib.util.find_spec("pyfeats").submodule_search_locations[0]
for name in ("", "/textural"):  # without the features that need OpenCV and mahotas
    package = types.ModuleType("pyfeats" + name.replace("/", "."))
    package.__path__ = [base + name]
    sys.modules[package.__name__] = package
from pyfeats.textural.fps import fps

SIZE = 64
rows, columns = np.indices((SIZE, SIZE))
distance = np.hypot(*(np.minimum(values, SIZE - values) for values in (rows, columns)))
upright = np.minimum(columns, SIZE - columns) > np.minimum(rows, SIZE - rows)  # structures that run down the image


def sum_spectrum(image):
    """Return the share of the power, without the mean, within 8 cycles and in the wedge of vertical structures."""
    power = np.abs(np.fft.fft2(image - image.mean())) ** 2
    return power[distance <= 8].sum() / power.sum(), power[upright].sum() / power.sum()


def draw(cycles, start):
    return 127 + 100 * np.sin(2 * np.pi * (cycles * columns / SIZE + start))


stripes = draw(4, 0)
images = {
    "stripes": stripes,
    "shifted by a quarter of their period": draw(4, 0.25),
    "turned by 90 degrees": stripes.T.copy(),
    "four times as fine": draw(16, 0),
}
found = {}
for name, image in images.items():
    (radial, angular), (ring, wedge) = fps(image, None)[0], sum_spectrum(image)
    found[name] = radial, angular
    print(f"{name:37}: radial sum {radial:6.0f}, angular sum {angular:6.0f}; "
          f"by hand within 8 cycles {ring:.2f}, vertical {wedge:.2f}")
    assert np.isclose(np.hypot(radial, angular), SIZE * np.sqrt((image**2).mean()), rtol=1e-4), "not the energy any more"
first, shifted, turned, fine = found.values()
assert shifted[1] < 1 < 1000 < first[1], "the behaviour changed"
assert np.allclose(first, turned, rtol=1e-3) and np.allclose(first, fine, rtol=1e-3)
PYTHON
