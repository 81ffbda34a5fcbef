#!/usr/bin/env bash
# Guess: `bootstrap` of dipy draws each value of a sample equally often, so the resampled accuracy of a network on 36,000
#   images, 91 % of them right, is 91 %, in any order of the images.
# Behaviour: with dipy 1.12.1 the images from 32,769 on are never drawn. If the errors are among them (a class that fails at
#   the end of the list), each resampled accuracy is 1 and the standard error 0. If they lie at the places 3,233 to 6,464,
#   it is .82.
# Cause: `bootstrap` (dipy/stats/resampling.py) turns the drawn places into int16, which ends at 32,767. Larger ones become
#   negative and so count from the end: place 32,768 of 36,000 becomes 3,232, whose neighbours are drawn twice as often.
# Why it matters: ImageNet's validation set has 50,000 images, in order of classes for many loaders, of which the last 15,536
#   would not count. Voxels of a volume are more than 32,768 nearly always.
# Versions: dipy 1.12.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q dipy==1.12.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from dipy.stats.resampling import bootstrap

wrong, total = 3232, 36000
generator = np.random.default_rng(0)
for name, first, known in (("last", total - wrong, 1), ("at the places 3,233 to 6,464", wrong, 0.820)):
    right = np.ones(total)
    right[first : first + wrong] = 0
    means, error, _ = bootstrap(right, statistic=np.mean, B=100, rng=np.random.default_rng(0))
    plain = [right[generator.integers(total, size=total)].mean() for _ in range(100)]
    print(f"errors {name}: dipy {means.min():.3f} to {means.max():.3f}, standard error {error:.4f}; numpy {min(plain):.3f} to "
          f"{max(plain):.3f} and {np.std(plain):.4f}")
    assert 0.905 < min(plain) and max(plain) < 0.915
    assert abs(means.mean() - known) < 0.002, "the behaviour changed"
PYTHON
