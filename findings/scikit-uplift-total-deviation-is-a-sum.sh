#!/usr/bin/env bash
# Guess: `uplift_by_percentile(…, std=True, total=True)` of scikit-uplift ends with a row for all customers, whose
#   standard deviation of the uplift is that of a difference of two response rates over all of them: smaller than in any
#   bin.
# Behaviour: with scikit-uplift 0.5.1 it is the sum of the deviations of the bins. For 10,000 customers in ten bins it
#   is .294 where the rates have .0093, 31 times as much; for 100 bins it is 9.2, more than any uplift can be. The
#   uplift beside it is that of all customers: .064, 6.9 deviations from 0, looks like 0.2 of one.
# Cause: `np.append(std_uplift, np.sum(std_uplift))` (sklift/metrics/metrics.py); the variances of the total, which
#   `response_rate_by_percentile(…, bins=1)` returns there, are not used.
# Why it matters: the total row says whether a campaign worked at all; with its own deviation every campaign looks like
#   chance, and the same data have another uncertainty with other bins.
# Versions: scikit-uplift 0.5.1, scikit-learn 1.9.1, pandas 3.1.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-uplift==0.5.1 scikit-learn==1.9.1 pandas==3.1.1 numpy==2.4.6 matplotlib==3.11.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from sklift.metrics import uplift_by_percentile

generator = np.random.default_rng(0)
customers = 10_000
treated = generator.integers(0, 2, customers)
score = generator.normal(size=customers)
bought = (generator.random(customers) < 0.3 + 0.05 * treated).astype(int)
rates = [bought[treated == group].mean() for group in (0, 1)]
right = np.sqrt(sum(rate * (1 - rate) / (treated == group).sum() for group, rate in enumerate(rates)))
for bins, times in ((1, 1), (10, 31.4), (100, 990)):
    table = uplift_by_percentile(bought, score, treated, std=True, total=True, bins=bins)
    total, parts = table.iloc[-1], table.iloc[:-1]
    uplift, found = total["uplift"], total["std_uplift"]
    print(f"{bins} bins: uplift of all {uplift:.3f}, its deviation {found:.3f}, of the two rates {right:.4f}")
    np.testing.assert_allclose(uplift, rates[1] - rates[0], rtol=1e-9)
    np.testing.assert_allclose(found, parts["std_uplift"].sum(), rtol=1e-9, err_msg="the behaviour changed")
    assert abs(found / right / times - 1) < 0.05, "the behaviour changed"
PYTHON
