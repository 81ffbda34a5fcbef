#!/usr/bin/env bash
# Guess: the 14th Haralick feature of mahotas, the maximal correlation coefficient, lies in [0, 1]: near 0 for noise, 1 where
#   a grey value tells its neighbour. It is the square root of the second largest eigenvalue of Q, and 1 the largest.
# Behaviour: with mahotas 1.4.19 noise has 1.40, blocks of equal pixels 1.07 and a checkerboard 0. By the definition they
#   have .01, .76 and 1, so the order is turned round; the plain correlation (feature 3) is 0, .76 and -1.
# Cause: `haralick_features` (mahotas/features/texture.py) takes the eigenvalues of `np.corrcoef` of the rows of the
#   co-occurrence matrix. Those add up to the number of grey values, none of them is 1 by nature, and the rows of a matrix
#   of noise are alike in nothing. Two grey values have 0 without a computation.
# Why it matters: Haralick features are the baseline that networks of tissue and of remote sensing are compared with; the
#   importance of this column is that of something else, and other programs' columns of its name do not agree with it.
# Versions: mahotas 1.4.19, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mahotas==1.4.19 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from mahotas.features import haralick


def compute_by_definition(image):
    """Return the root of the second largest eigenvalue of Q(i, j) = sum over k of p(i, k) p(j, k) / (p(i) p(k))."""
    pairs = np.zeros([image.max() + 1] * 2)
    np.add.at(pairs, (image[:, :-1].ravel(), image[:, 1:].ravel()), 1)
    pairs = (pairs + pairs.T) / (2 * pairs.sum())
    shares = pairs.sum(1)
    eigenvalues = np.sort(np.linalg.eigvals(pairs / shares[:, None] @ (pairs / shares).T).real)
    assert abs(eigenvalues[-1] - 1) < 1e-9
    return np.sqrt(eigenvalues[-2])


generator = np.random.default_rng(0)
images = {
    "noise": generator.integers(0, 8, (256, 256)),
    "blocks of 4 pixels": generator.integers(0, 8, (64, 64)).repeat(4, 0).repeat(4, 1),
    "checkerboard": np.indices((256, 256)).sum(0) % 2,
}
found = {}
for name, image in images.items():
    features = haralick(image.astype(np.uint8), compute_14th_feature=True)[0]  # the pairs side by side
    found[name] = features[13], compute_by_definition(image)
    print(f"{name}: {features[13]:.2f}, by definition {found[name][1]:.2f}, plain correlation {features[2]:.2f}")
given, right = zip(*found.values(), strict=True)
assert right[0] < 0.05 and 0.7 < right[1] < 0.8 and abs(right[2] - 1) < 1e-9
assert given[0] > 1.3 and given[1] > 1 and given[2] == 0, "the behaviour changed"
PYTHON
