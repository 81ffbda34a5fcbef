#!/usr/bin/env bash
# Guess: `compute_max_cross_corr` of mne-features is the largest correlation of two channels over lags of half a second in both
#   directions, as its source defines it, so it does not depend on which of the two comes first.
# Behaviour: with mne-features 0.3.2 it sees one direction. Noise that arrives in a second channel 20 samples later has .08
#   if the earlier channel is the first row, and 1.00 if it is the second, by a mere change of rows. Of four channels that
#   pass a signal on one by one, all six pairs are below .1 in one order and above .9 in the reverse one.
# Cause: `_max_cross_corr` (mne_features/bivariate.py) runs over negative and positive lags, but shifts the first channel by
#   the absolute value in both cases, so the negative half repeats the positive one.
# Why it matters: the direction of a wave over the head decides whether its channels count as coupled. The same holds for
#   the order of channels in a file, so models and importances of two recordings of one subject differ.
# Versions: mne-features 0.3.2, mne 1.13.2, numba 0.68.1, PyWavelets 1.9.0, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mne-features==0.3.2 mne==1.13.2 numba==0.68.1 PyWavelets==1.9.0 scikit-learn==1.9.1 \
    scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from mne_features.bivariate import compute_max_cross_corr

rate, delay, length = 128.0, 20, 1024
source = np.random.default_rng(0).normal(size=length + 3 * delay)
channels = np.stack([source[3 * delay - step * delay :][:length] for step in range(4)])  # each one 20 samples later


def find(first, second):
    """Return the largest absolute correlation over lags up to half a second in both directions."""
    first, second = ((channel - channel.mean()) / channel.std() for channel in (first, second))
    lags = range(-int(rate / 2), int(rate / 2))
    shifted = [(first[max(0, lag) :], second[max(0, -lag) :]) for lag in lags]
    sizes = [min(map(len, pair)) for pair in shifted]
    return max(abs(np.mean(one[:size] * other[:size])) for (one, other), size in zip(shifted, sizes))


for name, rows in (("earlier first", channels), ("later first", channels[::-1])):
    given = compute_max_cross_corr(rate, np.ascontiguousarray(rows))
    pairs = [(one, other) for one in range(4) for other in range(one + 1, 4)]
    both = [find(rows[one], rows[other]) for one, other in pairs]
    print(f"{name}: {given.round(2)}; over both directions {np.round(both, 2)}")
    assert min(both) > 0.9
    assert given.max() < 0.1 if name == "earlier first" else given.min() > 0.9, "the behaviour changed"
PYTHON
