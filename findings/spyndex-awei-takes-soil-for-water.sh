#!/usr/bin/env bash
# Guess: AWEInsh of spyndex, the automated water extraction index of Feyisa and others (2014), is above 0 for water and
#   far below 0 for land: 4 (G - S1) - (0.25 N + 2.75 S2), as land reflects short-wave infrared and water does not.
# Behaviour: with spyndex 0.12.0 bright surfaces are water. Dry soil (G .10, N .25, S1 .30, S2 .35) has .10 where -1.82
#   is due, a bright roof .56 where -1.09 is due, clear water .21 for .17. Of random land pixels (G .3 to .9 of S1, N .6
#   to 1.5, S2 .5 to 1.2), 69 % are above 0, by the paper none.
# Cause: the formula (spyndex/data/spectral-indices-dict.json) leaves out the brackets of the paper, and with them the
#   minus: - 0.25 * N + 2.75 * S2. AWEIsh beside it is right.
# Why it matters: the index was made to keep dark and built-up land out of water maps, with 0 as threshold. Here the
#   band that tells land best counts for water; water itself looks right, so a look at a lake finds nothing. The
#   catalogue also feeds packages for Earth Engine, R and Julia.
# Versions: spyndex 0.12.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile spyndex==0.12.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import spyndex


def compute(green, nir, first, second):
    """Return the index of spyndex, and the one of the paper."""
    found = spyndex.computeIndex("AWEInsh", {"G": green, "N": nir, "S1": first, "S2": second})
    return found, 4 * (green - first) - (0.25 * nir + 2.75 * second)


surfaces = {
    "clear water": (0.06, 0.03, 0.01, 0.008), "dry soil": (0.1, 0.25, 0.3, 0.35),
    "bright roof": (0.2, 0.25, 0.25, 0.3), "forest": (0.08, 0.45, 0.2, 0.1),
}
for name, bands in surfaces.items():
    found, right = compute(*bands)
    print(f"{name}: {found:.2f}, by the paper {right:.2f}")
    assert (right > 0) == (name == "clear water") and (found > 0) == (name != "forest"), "the behaviour changed"

generator = np.random.default_rng(0)
first = generator.uniform(0.1, 0.4, 100000)
land = first * generator.uniform(0.3, 0.9, 100000), first * generator.uniform(0.6, 1.5, 100000), first
found, right = compute(*land, first * generator.uniform(0.5, 1.2, 100000))
print(f"land pixels above 0: {(found > 0).mean():.1%}, by the paper {(right > 0).mean():.1%}")
assert (found > 0).mean() > 0.6 and (right > 0).mean() == 0, "the behaviour changed"
PYTHON
