#!/usr/bin/env bash
# Guess: `spectral_angles` of Spectral Python takes an image of integers, as the satellite's file holds them, as `unmix`,
#   `msam`, `ndvi`, `calc_stats` and `rx` of the same module do, which turn values into floats first.
# Behaviour: with spectral 0.25 the angles of reflectances times 10,000 in unsigned 16 bits are 0 for each pixel and
#   each material, without a warning, so `argmin`, which the documentation names, calls all pixels by the first material:
#   .25 of them right of four materials; as floats, all. Unsigned bytes do the same. Signed 16 bits give half of the
#   pixels NaN, with a warning.
# Cause: `np.einsum("ijk,ijk->ij", data, data)` (spectral/algorithms/algorithms.py) adds up squares in the image's own
#   type. The length of a spectrum wraps around to a small number, its cosine is far above 1, and is clipped to 1.
# Why it matters: the spectral angle mapper is the baseline that networks for hyperspectral images, and the bands that
#   explanations name, are compared with. `noise_from_diffs`, on which the minimum noise fraction rests, subtracts
#   neighbours in the image's type, too: its variance is 225 times too large here for unsigned 16 bits.
#   The NaN of signed integers: https://github.com/spectralpython/spectral/issues/132, where the type is not named.
# Versions: spectral 0.25, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q spectral==0.25 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from spectral import calc_stats, noise_from_diffs, rx, spectral_angles

rng = np.random.default_rng(0)
bands = np.linspace(0, 1, 100)
materials = 3000 + 2000 * np.sin(3 * bands), 1500 + 4000 * bands, 5000 - 3000 * bands, 2500 + 1500 * np.cos(7 * bands)
members = np.array(materials)
truth = np.arange(2500).reshape(50, 50) % 4
image = members[truth] * rng.uniform(0.8, 1.2, (50, 50, 1)) + rng.normal(0, 30, (50, 50, 100))


def find_angles(image):
    """Return the angles by the arc cosine of normed spectra."""
    spectra, materials = (values / np.linalg.norm(values, axis=-1, keepdims=True) for values in (image, members))
    return np.arccos(np.clip(spectra @ materials.T, -1, 1))


for kind, scale in (("float64", 1), ("uint16", 1), ("uint8", 0.04), ("int16", 1)):
    stored = np.round(image * scale).astype(kind)
    floats = stored.astype(float)
    angles, right = spectral_angles(stored, members), find_angles(floats)
    shares = [np.mean(values.argmin(-1) == truth) for values in (angles, right)]
    noise = np.trace(noise_from_diffs(stored).cov) / np.trace(noise_from_diffs(floats).cov)
    print(f"{kind:7}: largest angle {np.nanmax(angles):.2f} (by hand {right.max():.2f}), NaN {np.isnan(angles).mean():.0%}, "
          f"right materials {shares[0]:.0%} (by hand {shares[1]:.0%}); variance of the noise times {noise:.2f}")
    assert shares[1] == 1 and np.allclose(spectral_angles(floats, members), right, atol=1e-6)
    assert np.allclose(calc_stats(stored).cov, calc_stats(floats).cov) and np.allclose(rx(stored), rx(floats))
    assert (shares[0] == 1) == (kind == "float64") and (noise > 4) == (kind == "uint16"), "the behaviour changed"
    assert (not angles.any()) == kind.startswith("u") and np.isnan(angles).any() == (kind == "int16")
PYTHON
