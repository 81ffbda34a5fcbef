#!/usr/bin/env bash
# Guess: `hillshade` of xarray-spatial reads the size of a cell from the coordinates, as `slope` and `curvature` of the
#   same package do, so a hillside of 10 degrees is shaded alike in a raster with cells of 1 and of 30 metres.
# Behaviour: with xarray-spatial 0.5.3 `slope` says 10 degrees each time. With the sun in the east at 45 degrees, a
#   hillside that rises to the east by 10 degrees has a hillshade of .787 with cells of 1 metre, .367 with 10 and .218
#   with 30. The last is what 79.3 degrees have.
# Cause: `_run_numpy` (xrspatial/hillshade.py) takes `np.gradient(data)` without a spacing, so heights are divided by
#   cells, and no parameter gives the size.
# Why it matters: hillshades are inputs of networks for landslides, glaciers and archaeology, and corrections of
#   sunlight on slopes. One of the same ground at two resolutions shows two landscapes, and the steepness is that of a
#   cliff.
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
from xrspatial import hillshade, slope

ROWS, COLUMNS = np.indices((9, 9))


def make_hillside(degrees, cell):
    """Return a plane that rises to the east, with cells of `cell` metres and the first row in the north."""
    heights = COLUMNS * cell * np.tan(np.radians(degrees))
    place = np.arange(9) * float(cell)
    return xr.DataArray(heights, dims=["y", "x"], coords={"y": place[::-1], "x": place}, attrs={"res": (cell, cell)})


def shade(degrees, cell, azimuth):
    return float(hillshade(make_hillside(degrees, cell), azimuth=azimuth, angle_altitude=45)[4, 4])


def shade_by_hand(degrees, azimuth):
    """Return (1 + cosine of the angle between the sun and the normal of the plane) / 2, as xarray-spatial scales it."""
    normal = np.array([-np.sin(np.radians(degrees)), 0, np.cos(np.radians(degrees))])
    sun = np.array([np.sin(np.radians(azimuth)), np.cos(np.radians(azimuth)), 1]) * np.sqrt(0.5)
    return (1 + normal @ sun) / 2


for cell in (1, 10, 30):
    steepness = float(slope(make_hillside(10, cell))[4, 4])
    found = [shade(10, cell, azimuth) for azimuth in (90, 270)]
    right = [shade_by_hand(10, azimuth) for azimuth in (90, 270)]
    seen = np.degrees(np.arctan(cell * np.tan(np.radians(10))))
    print(f"cells of {cell} m, slope {steepness:.1f} degrees, sun in the east and west: {found[0]:.3f}, "
          f"{found[1]:.3f}; by hand {right[0]:.3f}, {right[1]:.3f}; those of {seen:.1f} degrees")
    assert abs(steepness - 10) < 1e-3
    steep = [shade_by_hand(seen, azimuth) for azimuth in (90, 270)]
    assert np.allclose(found, steep, atol=1e-4), "the behaviour changed"
assert np.allclose([shade(10, 1, 90), shade(10, 1, 270)], right, atol=1e-4)
PYTHON
