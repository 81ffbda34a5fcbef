#!/usr/bin/env bash
# Guess: aggregated knockoffs of hidimstat with e-values, `fdr_selection(.1, fdr_control="ebh", evalues=True)`, select
#   few or no columns where there is little to find, as the e-BH procedure does if no e-value is large enough.
# Behaviour: with hidimstat 0.4.0 they select every column. Of 30 columns of noise all 30 are "discovered", and with
#   five true columns, too. The aggregated e-values are all 0. By p-values nothing is selected. With 15 true columns it
#   is 15.
# Cause: `_ebh_threshold` (hidimstat/statistical_tools/multiple_testing.py) starts with one rejection instead of none,
#   so without any it returns the largest e-value, which is 0, and `fdr_selection` (hidimstat/knockoffs.py) takes all
#   columns that are at least the threshold.
# Why it matters: at a level of .1 knockoffs select ten columns or none, so sparse data end here: a false discovery rate
#   near 100 % under the name of its control.
# Versions: hidimstat 0.4.0, scikit-learn 1.9.1, scipy 1.17.1, pandas 3.1.1, packaging 26.4, numpy 2.4.6. Earlier
#   versions selected nothing: https://github.com/mind-inria/hidimstat/issues/520.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q hidimstat==0.4.0 scikit-learn==1.9.1 scipy==1.17.1 pandas==3.1.1 packaging==26.4 \
  numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from hidimstat import ModelXKnockoff
from sklearn.linear_model import Lasso

generator = np.random.default_rng(0)
table, noise = generator.normal(size=(500, 30)), generator.normal(size=500)


def select(true_columns):
    """Return the columns that e-values and p-values select, and the largest e-value."""
    target = table[:, :true_columns].sum(1) + noise
    knockoffs = ModelXKnockoff(estimator=Lasso(0.05), n_repeats=5, preconfigure_lasso_path=False, random_state=0)
    knockoffs.fit_importance(table, target)
    by_evalues = np.flatnonzero(knockoffs.fdr_selection(0.1, fdr_control="ebh", evalues=True))
    by_pvalues = np.flatnonzero(knockoffs.fdr_selection(0.1))
    return by_evalues, by_pvalues, knockoffs.aggregated_eval_.max()


for true_columns in (0, 5, 15):
    by_evalues, by_pvalues, largest = select(true_columns)
    print(
        f"{true_columns} of 30 columns are true: e-values select {len(by_evalues)}, p-values {len(by_pvalues)}, "
        f"largest e-value {largest:.0f}"
    )
    if true_columns < 10:
        assert largest == 0 and len(by_pvalues) == 0
        assert len(by_evalues) == 30, "the behaviour changed"
    else:
        assert set(by_evalues) == set(range(15))
PYTHON
