#!/usr/bin/env bash
# Guess: `holm_bonf(p, alpha)` of nltools returns the largest p value that Holm's step-down procedure rejects at the
#   level `alpha`, or -1 if it rejects none, as `fdr(p, q)` beside it does for its rate.
# Behaviour: with nltools 0.5.1 `alpha` changes nothing: at .05, .01 and .0001 the threshold is that of .05. And the
#   procedure steps up (Hochberg): for p = (.03, .04) it rejects both, where Holm stops at .03 > .05 / 2 and rejects
#   none.
# Cause: `null = 0.05 / (…)` names the level, and `max(below)` takes the last p value below its bound, not the last one
#   before the first above (`holm_bonf`, nltools/stats.py). Holm's procedure holds for any dependence, the other one
#   does not.
# Why it matters: a stricter level is asked for where a false finding is expensive, and the answer is the usual one
#   under another name.
# Versions: nltools 0.5.1, numpy 1.23.5, scipy 1.10.1, pandas 1.5.3, scikit-learn 1.2.2, nilearn 0.10.4, nibabel 5.2.1,
#   joblib 1.4.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q nltools==0.5.1 numpy==1.23.5 scipy==1.10.1 pandas==1.5.3 scikit-learn==1.2.2 \
  nilearn==0.10.4 nibabel==5.2.1 joblib==1.4.2 matplotlib==3.7.5 seaborn==0.12.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from nltools.stats import fdr, holm_bonf


def reject_by_holm(pvalues, alpha):
    """Return the largest p value that Holm's procedure rejects, or -1."""
    largest = -1
    for rank, value in enumerate(np.sort(pvalues)):
        if value > alpha / (len(pvalues) - rank):
            break
        largest = value
    return largest


pvalues = np.array([0.001, 0.012, 0.02, 0.03, 0.5])
for alpha in (0.05, 0.01, 0.0001):
    found, right = holm_bonf(pvalues, alpha=alpha), reject_by_holm(pvalues, alpha)
    print(f"level {alpha}: holm_bonf {found}, Holm {right}, fdr {fdr(pvalues, q=alpha)}")
    assert found == 0.012, "the behaviour changed"
assert [reject_by_holm(pvalues, alpha) for alpha in (0.05, 0.01, 0.0001)] == [0.012, 0.001, -1]
pair = np.array([0.03, 0.04])
print(f"p = .03 and .04: holm_bonf {holm_bonf(pair)}, Holm {reject_by_holm(pair, 0.05)}")
assert holm_bonf(pair) == 0.04 and reject_by_holm(pair, 0.05) == -1, "the behaviour changed"
PYTHON
