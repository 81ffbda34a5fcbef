#!/usr/bin/env bash
# Guess: `isc(data, n_samples=5000, random_state=0)` of nltools draws 5,000 bootstrap samples of the subjects; `n_jobs`,
#   all processors by default, makes it faster and changes the samples at most.
# Behaviour: with nltools 0.5.1 and two processes most samples are copies: 300 samples have 32 different values, and the
#   first four are equal. With one process all 300 differ. So the 95 % interval depends on how tasks are bundled: for
#   one seed it is .13 wide in place of .11.
# Cause: each task gets the generator itself (`delayed(_bootstrap_isc)(…, random_state=random_state)`,
#   nltools/stats.py); joblib sends each bundle of tasks a copy of it in its first state, and the generator here never
#   moves. The permutation tests beside it draw one seed for each task. `isc_group` has the same lines.
# Why it matters: intervals and p values of intersubject correlation rest on some dozens of samples, whatever number is
#   reported, and the seed, the processors and their load decide which.
# Versions: nltools 0.5.1, joblib 1.4.2, numpy 1.23.5, scipy 1.10.1, pandas 1.5.3, scikit-learn 1.2.2, nilearn 0.10.4,
#   nibabel 5.2.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q nltools==0.5.1 numpy==1.23.5 scipy==1.10.1 pandas==1.5.3 scikit-learn==1.2.2 \
  nilearn==0.10.4 nibabel==5.2.1 joblib==1.4.2 matplotlib==3.7.5 seaborn==0.12.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from nltools.stats import isc

generator = np.random.default_rng(1)
signals = generator.normal(size=(60, 12)) + generator.normal(size=(60, 1)) / 2
different = {}
for jobs in (1, 2):
    for seed in (0, 1):
        found = isc(signals, n_samples=300, metric="mean", n_jobs=jobs, random_state=seed, return_null=True)
        samples = np.array(found["null_distribution"])
        different[jobs, seed] = len(np.unique(samples))
        low, high = found["ci"]
        print(
            f"{jobs} processes, seed {seed}: {different[jobs, seed]} different values of {len(samples)}, "
            f"95 % interval {low:.3f} to {high:.3f}, first samples {samples[:4].round(3)}"
        )
assert all(different[1, seed] == 300 for seed in (0, 1))
assert all(different[2, seed] < 200 for seed in (0, 1)), "the behaviour changed"
PYTHON
