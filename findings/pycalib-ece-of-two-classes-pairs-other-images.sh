#!/usr/bin/env bash
# Guess: `pycalib.metrics.ECE(y_true, probs)`, whose `probs` has a column for each class, is small for calibrated
#   probabilities and large for uncalibrated ones, with two classes as with three.
# Behaviour: with pycalib 0.1.0.dev6 two classes change the order. 5,000 calibrated probabilities have .164; the same images
#   with all probabilities drawn to between .4 and .6, which is off by .25, have .033. `conf_ECE` and `binary_ECE` of the
#   same package have .01 for the first and .26 and .25 for the second. With three classes `ECE` is right.
# Cause: `_get_preds_all` (pycalib/metrics.py) makes a column for each class by scikit-learn's `label_binarize`, which returns
#   one column for two classes. Then n labels meet 2 n probabilities in a `zip`, which pairs each label with a probability
#   of another image and drops the last n.
# Why it matters: the package accompanies tutorials on classifier calibration, whose first case has two classes; the method
#   that is best by this number draws everything to one half. `MCE(…, mce_full=True)` goes the same way.
# Versions: pycalib 0.1.0.dev6, scikit-learn 1.9.1, scipy 1.17.1, statsmodels 0.15.0, matplotlib 3.11.2, pandas 3.1.1,
#   numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pycalib==0.1.0.dev6 scikit-learn==1.9.1 scipy==1.17.1 statsmodels==0.15.0 \
  matplotlib==3.11.2 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from pycalib.metrics import ECE, binary_ECE, conf_ECE

generator = np.random.default_rng(0)
calibrated = generator.beta(0.5, 0.5, 5000)
labels = (generator.random(5000) < calibrated).astype(int)


def measure_by_hand(probabilities, bins=15):
    """Return the expected calibration error over the probabilities of both classes."""
    both = np.concatenate([1 - probabilities, probabilities])
    right = np.concatenate([1 - labels, labels])
    places = np.minimum((both * bins).astype(int), bins - 1)
    return sum(abs((both - right)[places == place].sum()) for place in np.unique(places)) / len(both)


found = {}
for name, probabilities in {"calibrated": calibrated, "drawn to .5": 0.5 + 0.2 * (calibrated - 0.5)}.items():
    columns = np.column_stack([1 - probabilities, probabilities])
    here, by_hand = ECE(labels, columns), measure_by_hand(probabilities)
    others = conf_ECE(labels, columns), binary_ECE(labels, probabilities)
    found[name] = here, by_hand
    print(f"{name}: ECE {here:.3f}, by hand {by_hand:.3f}, conf_ECE {others[0]:.3f}, binary_ECE {others[1]:.3f}")
    assert all(abs(other - by_hand) < 0.02 for other in others)
assert found["calibrated"][1] < 0.02 and found["drawn to .5"][1] > 0.2
assert found["calibrated"][0] > 0.1 and found["drawn to .5"][0] < 0.05, "the behaviour changed"
three = generator.dirichlet(np.full(3, 0.5), 5000)
classes = (generator.random((5000, 1)) < three.cumsum(1)).argmax(1)
print(f"three classes, calibrated: ECE {ECE(classes, three):.3f}")
assert ECE(classes, three) < 0.02
PYTHON
