#!/usr/bin/env bash
# Guess: `savi(nir, red, soil_factor=L)` of xarray-spatial is the soil adjusted vegetation index, (N - R) (1 + L) / (N +
#   R + L), and `arvi(nir, red, blue)` the atmospherically resistant one, (N - RB) / (N + RB) with RB = 2 R - B.
# Behaviour: with xarray-spatial 0.5.3 a green leaf (N .5, R .05, B .03) has the SAVI .145 with the default L = 1, where
#   .581 is due: a quarter. With L = .5 it has .286 for .643, with L = -.25 1.8 times too much. Its ARVI is .683 for
#   .754.
# Cause: `_savi_cpu` (xrspatial/multispectral.py) multiplies the denominator by 1 + L, where the numerator was meant, so
#   the value is (1 + L)^2 times too small. `_arvi_cpu` adds the blue band in the denominator, where it is to be taken
#   off.
# Why it matters: thresholds of the literature find a quarter of the green, and with an L that varies by cover the order
#   of fields changes too. The values lie in the usual range, so columns of a model look right. L = 0 is NDVI, as
#   documented.
# Versions: xarray-spatial 0.5.3, xarray 2026.9.0, numba 0.68.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile xarray==2026.9.0 numba==0.68.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-compile --no-deps xarray-spatial==0.5.3 # without datashader
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys
from unittest.mock import MagicMock

import numpy as np
import xarray as xr

sys.modules |= {name: MagicMock() for name in ("datashader", "datashader.transfer_functions", "datashader.colors")}
from xrspatial.multispectral import arvi, ndvi, savi


def fill(value):
    return xr.DataArray(np.full((3, 3), value, np.float32), dims=["y", "x"])


for nir, red, blue in ((0.5, 0.05, 0.03), (0.3, 0.2, 0.1), (0.4, 0.1, 0.25)):
    bands = fill(nir), fill(red)
    for soil in (0, 0.5, 1, -0.25):
        found = savi(*bands, soil_factor=float(soil)).values[1, 1]
        due = (1 + soil) * (nir - red) / (nir + red + soil)
        print(f"N {nir}, R {red}, L {soil}: SAVI {found:.3f}, by the formula {due:.3f}, ratio {found / due:.3f}")
        assert abs(found / due * (1 + soil) ** 2 - 1) < 1e-4, "the behaviour changed"
    assert abs(savi(*bands).values[1, 1] / savi(*bands, soil_factor=1.0).values[1, 1] - 1) < 1e-6  # the default
    corrected = 2 * red - blue
    found, due = arvi(*bands, fill(blue)).values[1, 1], (nir - corrected) / (nir + corrected)
    print(f"  blue {blue}: ARVI {found:.3f}, by the formula {due:.3f}, NDVI {ndvi(*bands).values[1, 1]:.3f}")
    assert abs(found - (nir - corrected) / (nir + 2 * red + blue)) < 1e-6, "the behaviour changed"
PYTHON
