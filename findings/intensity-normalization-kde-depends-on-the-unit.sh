#!/usr/bin/env bash
# Guess: `KDENormalizer` of intensity-normalization finds the peak of white matter in the histogram of a magnetic resonance
#   image and divides by it, so white matter is 1 afterwards, and an image in other units (times 10, or a tenth) gives the
#   same result.
# Behaviour: with intensity-normalization 3.0.1 it depends on the unit. An image with peaks at 300, 600 and 900 has its white
#   matter at 1.36 and its grey matter at .91, near 1; divided by 100 first, white matter is at 1.00 and grey matter at .67.
#   The peak is taken at 661, where there is no peak. `WhiteStripeNormalizer` gives the same in each unit.
# Cause: `gaussian_kde(image_vec, bw_method=image_vec.max() / 80)` (normalizers/individual/kde.py) means a bandwidth in
#   intensities; scipy takes the number as a factor of the standard deviation, so the curve is one broad bump unless
#   intensities are small.
# Why it matters: raw scanners give hundreds or thousands, resampled or scaled images a few. Sites and sequences that were to
#   be made alike differ by a third, and networks and importance maps see the site.
# Versions: intensity-normalization 3.0.1, numpy 2.4.6, scipy 1.17.1, nibabel 5.4.2, scikit-fuzzy 0.5.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q intensity-normalization==3.0.1 numpy==2.4.6 scipy==1.17.1 nibabel==5.4.2 scikit-fuzzy==0.5.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from intensity_normalization import KDENormalizer, WhiteStripeNormalizer, create_image

generator = np.random.default_rng(0)
tissues = generator.choice(4, (24, 24, 24), p=(0.4, 0.1, 0.25, 0.25))  # background, fluid, grey and white matter
peaks = np.array([0, 300, 600, 900])
image = np.where(tissues > 0, peaks[tissues] + generator.normal(0, 40, tissues.shape), 0).clip(0)


def normalise(kind, unit):
    """Return the medians of grey and white matter after normalisation of the image in another unit."""
    scaled = create_image(image * unit)
    values = kind().fit(scaled).transform(scaled).get_data()
    return [round(float(np.median(values[tissues == tissue])), 2) for tissue in (2, 3)]


found = {}
for unit in (0.01, 0.1, 1, 10):
    for kind in (KDENormalizer, WhiteStripeNormalizer):
        found[kind, unit] = normalise(kind, unit)
    print(f"image times {unit:5}: grey and white matter by KDE {found[KDENormalizer, unit]}, "
          f"by WhiteStripe {found[WhiteStripeNormalizer, unit]}")
assert len({tuple(found[WhiteStripeNormalizer, unit]) for unit in (0.01, 0.1, 1, 10)}) == 1
assert abs(found[KDENormalizer, 0.01][1] - 1) < 0.05
assert found[KDENormalizer, 1][1] > 1.25 and found[KDENormalizer, 10][1] > 1.25, "the behaviour changed"
PYTHON
