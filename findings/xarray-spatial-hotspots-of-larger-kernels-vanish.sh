#!/usr/bin/env bash
# Guess: `hotspots(raster, kernel)` of xarray-spatial marks places whose neighbourhood is "statistically significant":
#   in noise without any hot spot about 5 % of the pixels at 95 % and 10 % at 90 % or more, with each kernel, as the Gi*
#   statistic of Getis and Ord does; a larger kernel finds weaker, wider spots.
# Behaviour: with xarray-spatial 0.5.3 noise has none at all, with kernels of 3, 5 and 9 pixels; by the formula 10 %
#   have 90 % or more. A square of 40 x 40 pixels that is one standard deviation brighter, of which Gi* with a kernel of
#   9 marks 100 % at 99 %, has none. The z that is compared with 1.65, 1.96 and 2.58 has a standard deviation of .33,
#   .20 and .11, not 1.
# Cause: `_hotspots_numpy` (xrspatial/focal.py) divides the mean of the neighbourhood less the global mean by the
#   standard deviation of single pixels, not of a mean of k pixels, which is sqrt(k) times smaller.
# Why it matters: clusters of burned area, disease and heat are reported with this confidence. Nothing is found, and the
#   less, the larger the neighbourhood; what is marked as 95 % with a kernel of 9 x 9 pixels is 17 standard errors off.
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
from scipy.ndimage import correlate

sys.modules |= {name: MagicMock() for name in ("datashader", "datashader.transfer_functions", "datashader.colors")}
from xrspatial.focal import hotspots


def compute_gi_star(values, kernel):
    """Return Gi* of Getis and Ord for weights of 0 and 1, standard normal where nothing clusters."""
    count, weights = values.size, kernel.sum()
    spread = values.std() * np.sqrt((count * weights - weights**2) / (count - 1))
    return (correlate(values, kernel) - values.mean() * weights) / spread


noise = np.random.default_rng(0).normal(size=(400, 400))
bright = noise.copy()
bright[100:140, 100:140] += 1
for side in (3, 5, 9):
    kernel = np.ones((side, side))
    inside = (slice(20, -20),) * 2
    marked = hotspots(xr.DataArray(noise, dims=["y", "x"]), kernel).values[inside]
    right = np.abs(compute_gi_star(noise, kernel))[inside]
    shares = (marked != 0).mean(), (right > 1.65).mean(), (right > 1.96).mean()
    print(f"noise, kernel of {side}: marked {shares[0]:.1%}; Gi* at 90 % {shares[1]:.1%}, at 95 % {shares[2]:.1%}")
    assert shares[0] < 1e-4, "the behaviour changed"
    assert abs(shares[1] - 0.1) < 0.02 and abs(shares[2] - 0.05) < 0.02
    spot = (slice(110, 130),) * 2
    found = hotspots(xr.DataArray(bright, dims=["y", "x"]), kernel).values[spot]
    due = compute_gi_star(bright, kernel)[spot]
    print(f"  bright square: marked {(found != 0).mean():.1%}; Gi* marks {(due > 2.58).mean():.1%} at 99 %")
assert (found != 0).mean() == 0 and (due > 2.58).mean() == 1, "the behaviour changed"
PYTHON
