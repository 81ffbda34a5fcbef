#!/usr/bin/env bash
# Guess: `expected_calibration_error(…, split_strategy="array split")` of MAPIE makes bins of equally many images, as the
#   name says, so the order of the images does not matter, and the error is near that of the other two strategies.
# Behaviour: with mapie 1.6.0 it depends on the order. A network that is right in 75 % of 10,000 images, whatever its
#   confidence between .5 and 1, has an error of .131 by hand and by "uniform", .132 by "quantile", and .131 by "array
#   split" if images are sorted by confidence. In random order, or sorted by class, it is .003: nearly calibrated.
# Cause: `np.array_split(y_score, num_bins)` (`_get_binning_groups`, mapie/metrics/calibration.py) cuts the scores as they
#   come. Each part of a random order reaches nearly up to 1, and the maxima of the parts are the bounds of the bins, so
#   the first bin holds nearly all images.
# Why it matters: over- and underconfidence cancel in one bin; the worse the calibration, the more the strategy hides: the
#   network above and one whose confidence is .75 throughout are alike. `top_label_ece` calls it for each class.
# Versions: mapie 1.6.0, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mapie==1.6.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from mapie.metrics.calibration import expected_calibration_error

random = np.random.default_rng(0)
scores = random.uniform(0.5, 1, 10_000)
correct = (random.random(10_000) < 0.75).astype(int)
classes = random.integers(0, 10, 10_000)


def measure(order, strategy="array split"):
    return expected_calibration_error(correct[order], scores[order], num_bins=20, split_strategy=strategy)


order = np.argsort(scores)
by_hand = np.mean([abs(correct[part].mean() - scores[part].mean()) for part in np.array_split(order, 20)])
found = {
    "uniform": measure(slice(None), "uniform"),
    "quantile": measure(slice(None), "quantile"),
    "sorted": measure(order),
    "by class": measure(np.argsort(classes, kind="stable")),
    **{f"shuffled {number}": measure(random.permutation(10_000)) for number in range(3)},
}
print(f"by hand {by_hand:.4f};", ", ".join(f"{name} {value:.4f}" for name, value in found.items()))
assert all(abs(found[name] - by_hand) < 0.01 for name in ("uniform", "quantile", "sorted")), "other strategies changed"
assert max(value for name, value in found.items() if "shuffled" in name or "class" in name) < 0.03, "the behaviour changed"
PYTHON
