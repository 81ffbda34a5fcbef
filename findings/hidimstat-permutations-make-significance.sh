#!/usr/bin/env bash
# Guess: `pvalues_` of hidimstat's PFI and CFI ask whether a column matters for new rows, so of columns that have
#   nothing to do with the target about 5 % are below .05, and more permutations change that little.
# Behaviour: with hidimstat 0.4.0 27 % of such columns are below .05 with 10 permutations, 38 % with 50, the default,
#   and 43 % with 250; by CFI it is 38 % with 50. Columns are independent, rows are held out, the model is linear.
#   `fdr_selection(.1)`, which should have at most 10 % false discoveries, has 79 %.
# Cause: `BasePerturbation.importance` (hidimstat/base_perturbation.py) tests the losses of the permutations against the
#   loss of the one test set: their spread is that of the permutations, which falls with their number, and not that of
#   other rows or another training set. A weight that is not exactly 0 makes a column "matter".
# Why it matters: these p values are the reason to prefer CFI to a plain importance; a setting for precision decides how
#   many columns a paper calls important. PFICV and CFICV test over folds.
# Versions: hidimstat 0.4.0, scikit-learn 1.9.1, scipy 1.17.1, pandas 3.1.1, packaging 26.4, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q hidimstat==0.4.0 scikit-learn==1.9.1 scipy==1.17.1 pandas==3.1.1 packaging==26.4 \
  numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from hidimstat import CFI, PFI
from sklearn.linear_model import LinearRegression

COLUMNS, STUDIES = 12, 20


def find_null_shares(importance, permutations):
    """Return the share of null columns with p < .05, and the mean false discovery proportion of `fdr_selection(.1)`."""
    below, false = [], []
    for study in range(STUDIES):
        generator = np.random.default_rng(study)
        table = generator.normal(size=(400, COLUMNS))
        target = table[:, 0] + generator.normal(size=400)  # all columns but the first are null
        model = LinearRegression().fit(table[:200], target[:200])
        tested = importance(estimator=model, n_permutations=permutations, random_state=study)
        tested.fit(table[:200], target[:200])
        tested.importance(table[200:], target[200:])
        selected = tested.fdr_selection(0.1).astype(bool)
        below.append((tested.pvalues_[1:] < 0.05).mean())
        false.append(selected[1:].sum() / max(1, selected.sum()))
    return np.mean(below), np.mean(false)


shares = {
    (importance.__name__, permutations): find_null_shares(importance, permutations)
    for importance, permutations in ((PFI, 10), (PFI, 50), (PFI, 250), (CFI, 50))
}
for (name, permutations), (below, false) in shares.items():
    print(f"{name}, {permutations} permutations: {100 * below:.0f} % below .05, false discoveries {100 * false:.0f} %")
assert shares["PFI", 250][0] > shares["PFI", 10][0] + 0.1 > 0.2, "the behaviour changed"
assert min(shares["PFI", 50][1], shares["CFI", 50][1]) > 0.4, "the behaviour changed"
PYTHON
