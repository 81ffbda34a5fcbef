#!/usr/bin/env bash
# Guess: with `compare_functions.ratio` bootstrapped asks whether a ratio differs from 1:
#   `bootstrap_ab(…).is_significant()` is true in about 5 % of studies of equal methods, and `permutation_test` has a
#   small p value for a clearly lower one.
# Behaviour: with bootstrapped 0.0.2 each ratio of accuracies is significant: 100 % of studies of equal methods. The
#   permutation test is one-sided: of accuracies of 60 and 80 %, p = 0 in one order and p = 1 in the other. Differences
#   and changes in percent are right: about 5 % and 0 in either order. Both docstrings list `ratio` beside them.
# Cause: `BootstrapResults.is_significant` (bootstrapped/bootstrap.py) asks whether both bounds have the same sign, and
#   `_get_permutation_result` (bootstrapped/permutation.py) counts values beyond the found one in either direction of 0,
#   whatever is compared.
# Why it matters: ratios of error rates are usual, `power_stats` counts significant results by the same signs, and a
#   table in which all is significant looks like good data.
# Versions: bootstrapped 0.0.2, scipy 1.17.1, pandas 3.1.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q bootstrapped==0.0.2 matplotlib==3.11.2 scipy==1.17.1 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import bootstrapped.bootstrap as bootstrap
import bootstrapped.compare_functions as compare
import bootstrapped.permutation as permutation
import bootstrapped.stats_functions as statistics
import numpy as np

generator = np.random.default_rng(0)
np.random.seed(0)


def draw(accuracy, images=200):
    return (generator.random(images) < accuracy).astype(float)


def count_significant(function, studies=200):
    """Return the share of studies of equal methods that are called significant."""
    found = [
        bootstrap.bootstrap_ab(draw(0.8), draw(0.8), statistics.mean, function, num_iterations=300)
        for _ in range(studies)
    ]
    return np.mean([result.is_significant() for result in found])


worse, better = draw(0.6), draw(0.8)
for function in (compare.difference, compare.percent_change, compare.ratio):
    share = count_significant(function)
    pvalues = [
        permutation.permutation_test(first, second, statistics.mean, function, num_iterations=1000)
        for first, second in ((worse, better), (better, worse))
    ]
    print(f"{function.__name__}: significant {share:.0%}; p worse to better {pvalues[0]}, better to worse {pvalues[1]}")
    is_ratio = function is compare.ratio
    assert (share == 1) == is_ratio and (is_ratio or share < 0.15), "the behaviour changed"
    assert (pvalues[0] > 0.9) == is_ratio and pvalues[1] < 0.01, "the behaviour changed"
PYTHON
