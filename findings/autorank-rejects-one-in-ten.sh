#!/usr/bin/env bash
# Guess: `autorank(data, alpha=.05)` finds a difference between two equal methods in at most 5 % of studies, and `alpha`
#   sets the width of the intervals that it reports, as its report says ("the family-wise significance level is alpha").
# Behaviour: with autorank 1.3.0 two equal methods differ "significantly" in 9 to 10 % of studies if their scores are
#   not normal. Intervals of three normal methods are equally wide for alpha = .05 and .001, and so are the groups of
#   methods "without significant difference".
# Cause: `rank_two` (autorank/_util.py) looks which median is larger and then tests one-sided whether this one is
#   larger; `rank_multiple_normal_homoscedastic` calls `tukeyhsd()` without alpha, whose default is .05.
# Why it matters: a paper's two rows are compared at twice the level that its text names, and a corrected level for many
#   tables changes nothing. `2 * result.pvalue` is right for two methods.
# Versions: autorank 1.3.0, scipy 1.17.1, statsmodels 0.15.0, pandas 3.1.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q autorank==1.3.0 scipy==1.17.1 statsmodels==0.15.0 pandas==3.1.1 numpy==2.4.6
MPLBACKEND=agg "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import io
from contextlib import redirect_stdout

import numpy as np
from autorank import autorank
from pandas import DataFrame
from scipy.stats import wilcoxon


def compare(scores, **settings):
    with redirect_stdout(io.StringIO()):  # it prints its table
        return autorank(DataFrame(scores, columns=list("abc")[: scores.shape[1]]), **settings)


generator = np.random.default_rng(0)
for rows in (10, 30):
    studies = [generator.lognormal(size=(rows, 2)) for _ in range(500)]
    results = [compare(scores, force_mode="nonparametric") for scores in studies]
    found = np.mean([result.pvalue < 0.05 for result in results])
    right = np.mean([wilcoxon(*scores.T).pvalue < 0.05 for scores in studies])
    print(f"{rows} data sets, equal methods: {100 * found:.1f} % of studies significant, two-sided {100 * right:.1f} %")
    assert found > 0.075 > right, "the behaviour changed"
scores = generator.standard_normal((20, 3)) + [0, 0.3, 0.9]
widths = []
for alpha in (0.05, 0.001):
    result = compare(scores, alpha=alpha)
    assert result.posthoc == "tukeyhsd"
    widths.append(float((result.rankdf.ci_upper - result.rankdf.ci_lower).iloc[0]))
    print(f"alpha = {alpha}: intervals of width {widths[-1]:.3f}")
assert widths[0] == widths[1], "the behaviour changed"
PYTHON
