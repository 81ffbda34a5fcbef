#!/usr/bin/env bash
# Guess: ARVI of spyndex (and of the catalogue Awesome Spectral Indices, which it holds) is the vegetation index of
#   Kaufman and Tanre (1992), an NDVI whose red is corrected by blue: (N - RB) / (N + RB) with RB = R - gamma (B - R),
#   gamma = 1. SARVI is the same with a term for the soil.
# Behaviour: with spyndex 0.12.0 ARVI with the default gamma is BNDVI, the normalised difference of near infrared and
#   blue, to the last digit, and SARVI is (1 + L) (N - B) / (N + B + L). The red band changes nothing: bare soil (N .30,
#   R .20, B .10) and a leaf with a tenth of the red have .500 both; by the paper they have 0 and 1.5.
# Cause: the formula (spyndex/data/spectral-indices-dict.json) is R - gamma * (R - B), with the difference turned round,
#   so R - R + B is left. IAVI of the same catalogue has the paper's R - gamma * (B - R) and differs.
# Why it matters: a vegetation index that cannot see chlorophyll's red absorption is compared with NDVI and EVI in
#   tables, and beside BNDVI it is one column twice, so the two share their importance. The catalogue also feeds Earth
#   Engine, R and Julia packages.
# Versions: spyndex 0.12.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile spyndex==0.12.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import spyndex

gamma = spyndex.constants.gamma.default
assert gamma == 1
generator = np.random.default_rng(0)
nir, red, other_red, blue = generator.uniform(0.02, 0.5, (4, 1000))


def compute(name, nir, red, blue):
    values = {"N": nir, "R": red, "B": blue, "gamma": gamma, "L": 0.5}
    return spyndex.computeIndex(name, values)


def compute_by_paper(nir, red, blue):
    corrected = red - gamma * (blue - red)
    return (nir - corrected) / (nir + corrected)


for name, bands in {"bare soil": (0.3, 0.2, 0.1), "a tenth of the red": (0.3, 0.02, 0.1)}.items():
    found, right = compute("ARVI", *bands), compute_by_paper(*bands)
    print(f"{name}: ARVI {found:.3f}, by the paper {right:.3f}, IAVI {compute('IAVI', *bands):.3f}, "
          f"BNDVI {compute('BNDVI', *bands):.3f}")
    assert abs(compute("IAVI", *bands) - right) < 1e-9
for name in ("ARVI", "SARVI"):
    change = np.abs(compute(name, nir, red, blue) - compute(name, nir, other_red, blue)).max()
    print(f"{name}: largest change of 1,000 pixels by another red band {change:.1e}")
    assert change < 1e-9, "the behaviour changed"
assert np.allclose(compute("ARVI", nir, red, blue), compute("BNDVI", nir, red, blue)), "the behaviour changed"
PYTHON
