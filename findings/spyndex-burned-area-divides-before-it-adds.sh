#!/usr/bin/env bash
# Guess: BAIM of spyndex, the burned area index adapted to MODIS, is the inverse of the squared distance of a pixel from
#   burned ground (N .05, S2 .20): 1 / ((.05 - N)^2 + (.2 - S2)^2). BAI of the same catalogue has this form.
# Behaviour: with spyndex 0.12.0 the short-wave infrared has no say. A dark, wet pixel (N .06, S2 .01) has 10,000, where
#   28 is due, and is the most burned of all; ash (N .08, S2 .22) has 1,111 for 769. Of pixels with the same N, the one
#   farther from burned ground has the higher value.
# Cause: the formula (spyndex/data/spectral-indices-dict.json) is 1.0/((0.05 - N) ** 2.0) + ((0.2 - S2) ** 2.0), without
#   the brackets around the sum, so the second term, at most .6, is added to hundreds.
# Why it matters: the band at 2.2 micrometres is the point of BAIM: it tells burned ground from water and shadow, which
#   are as dark in the near infrared. Here they are burned. The importance of S2 in an index of N and S2 is zero.
# Versions: spyndex 0.12.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile spyndex==0.12.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import spyndex


def compute(nir, second):
    """Return the index of spyndex, and the one by the formula."""
    found = spyndex.computeIndex("BAIM", {"N": nir, "S2": second})
    return found, 1 / ((0.05 - nir) ** 2 + (0.2 - second) ** 2)


pixels = {"ash": (0.08, 0.22), "shadow on water": (0.06, 0.01), "forest": (0.45, 0.1), "soil": (0.25, 0.35)}
values = {name: compute(*bands) for name, bands in pixels.items()}
for name, (found, right) in values.items():
    print(f"{name}: BAIM {found:,.1f}, by the formula {right:,.1f}")
assert values["shadow on water"][0] > 9 * values["ash"][0] and values["ash"][1] > 20 * values["shadow on water"][1]

nir, second, other = np.random.default_rng(0).uniform(0.02, 0.5, (3, 1000))
change = np.abs(compute(nir, second)[0] - compute(nir, other)[0]).max()
far, near = compute(0.1, 0.5)[0], compute(0.1, 0.2)[0]
print(f"largest change by another S2: {change:.2f}; N .1: S2 .5 has {far:.2f}, S2 .2, as burned ground, {near:.2f}")
assert change < 0.1 and far > near, "the behaviour changed"
bai = spyndex.computeIndex("BAI", {"N": nir, "R": second})
assert np.allclose(bai, 1 / ((0.1 - second) ** 2 + (0.06 - nir) ** 2))
PYTHON
