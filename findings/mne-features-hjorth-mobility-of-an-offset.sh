#!/usr/bin/env bash
# Guess: `compute_hjorth_mobility` of mne-features is the standard deviation of the differences of a signal over that of the
#   signal, so a constant added to a channel changes neither it nor the complexity.
# Behaviour: with mne-features 0.3.2 both read the constant. A noisy sine of 256 values has the mobility .56 around 0, .77
#   around 10 and 1.00 around 100, and the complexity falls from 3.03 to 1.96 and 1.42. antropy has .56 and 3.03 for all three.
#   Around 100 a slow wave, a fast wave and noise have the mobility 1.00 each.
# Cause: `compute_hjorth_mobility` and `compute_hjorth_complexity` (mne_features/univariate.py) put a 0 before the signal, so
#   the first difference is the first value itself.
# Why it matters: recordings have offsets of their electrodes, larger than the signal, and windows of a drifting channel have
#   one each. The features then tell channels and times apart instead of states, and their importance in a model is that of the
#   offset. Pixels and other rows of positive numbers have a mean far from 0, too.
# Versions: mne-features 0.3.2, antropy 0.2.3, mne 1.13.2, numba 0.68.1, PyWavelets 1.9.0, scikit-learn 1.9.1, scipy 1.17.1,
#   numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mne-features==0.3.2 antropy==0.2.3 mne==1.13.2 numba==0.68.1 PyWavelets==1.9.0 \
    scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from antropy import hjorth_params
from mne_features.univariate import compute_hjorth_complexity, compute_hjorth_mobility

generator = np.random.default_rng(0)
time = np.arange(256) / 256
noise = generator.normal(size=256)
signals = {
    "a noisy sine": np.sin(2 * np.pi * 5 * time) + 0.3 * noise,
    "a slow wave": np.sin(2 * np.pi * 2 * time),
    "a fast wave": np.sin(2 * np.pi * 60 * time),
    "noise": noise,
}
far = []
for name, signal in signals.items():
    known = hjorth_params(signal)
    for offset in (0, 10, 100):
        channel = signal + offset
        mobility, complexity = compute_hjorth_mobility(channel[None])[0], compute_hjorth_complexity(channel[None])[0]
        by_hand = np.diff(channel).std() / channel.std()
        print(f"{name} around {offset}: mobility {mobility:.2f}, complexity {complexity:.2f}; by hand {by_hand:.2f}, antropy "
              f"{known[0]:.2f} and {known[1]:.2f}")
        assert np.allclose(hjorth_params(channel), known) and abs(by_hand - known[0]) < 0.01
    far.append(mobility)
assert np.abs(np.array(far) - 1).max() < 0.1, "the behaviour changed"
PYTHON
