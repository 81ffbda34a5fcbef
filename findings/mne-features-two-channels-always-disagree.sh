#!/usr/bin/env bash
# Guess: `compute_time_corr` of mne-features is the correlation of each pair of channels over time, between -1 and 1 and high
#   for channels that carry the same signal.
# Behaviour: with mne-features 0.3.2 it is -1 for any two channels: copies with a little noise (their correlation is .99),
#   unrelated ones (-.02), opposite ones (-.99). Of eight channels that share one signal (.96 on average) the mean is
#   -.14, which is -1 / 7, as it is for eight unrelated ones. The eigenvalues that the function returns beside do not tell
#   them apart either. `compute_spect_corr` has the same step for spectra.
# Cause: `compute_time_corr` (mne_features/bivariate.py) first scales the rows of channels along the wrong axis: at each moment
#   the mean over channels is taken away, and the rest is divided by its deviation over channels. Two channels become 1 and -1.
# Why it matters: synchrony of channels is the feature that the source of the function, a seizure detector, was made for.
#   Importances of these columns are importances of noise, and the strongest signals, those of all channels, are removed.
# Versions: mne-features 0.3.2, mne 1.13.2, numba 0.68.1, PyWavelets 1.9.0, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mne-features==0.3.2 mne==1.13.2 numba==0.68.1 PyWavelets==1.9.0 scikit-learn==1.9.1 \
    scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from mne_features.bivariate import compute_time_corr

generator = np.random.default_rng(0)
noise = generator.normal(size=(8, 2000))
wave = np.cumsum(generator.normal(size=2000))
wave /= wave.std()
cases = {
    "two copies": wave + 0.1 * noise[:2],
    "two opposites": np.array([[1], [-1]]) * wave + 0.1 * noise[:2],
    "two unrelated": noise[:2],
    "eight copies": wave + 0.2 * noise,
    "eight unrelated": noise,
}
for name, data in cases.items():
    pairs = np.triu_indices(len(data), 1)
    by_numpy = np.corrcoef(data)[pairs].mean()
    found = compute_time_corr(data)
    given, largest = found[: len(pairs[0])].mean(), found[-1]
    print(f"{name}: mean correlation {given:.3f}, largest eigenvalue {largest:.2f}; numpy {by_numpy:.3f} and "
          f"{np.linalg.eigvalsh(np.corrcoef(data))[-1]:.2f}")
    assert abs(given + 1 / (len(data) - 1)) < 0.01, "the behaviour changed"
assert np.corrcoef(cases["two copies"])[0, 1] > 0.98 and np.corrcoef(cases["two opposites"])[0, 1] < -0.98
PYTHON
