#!/usr/bin/env bash
# Guess: `transfer_entropy(x, y)` of nitime is the information that the past of x gives on the future of y beyond that of the
#   past of y, as its documentation says: x is the "source", y the "target", the result is the "transfer entropy from x to y".
# Behaviour: with nitime 0.12.1 it is the one from y to x. If y repeats fair coins x one step later, x tells all of y's next
#   value, one bit: the function gives .00 for (x, y) and 1.00 for (y, x). With 20 % of errors, by the sums over counts, it is
#   .27 from x to y and .00 back, and the function gives .00 and .27.
# Cause: `transfer_entropy` (nitime/algorithms/entropy.py) conditions the future of its first argument on the past of both; its
#   own variables call the result the one from j to i, with i the first argument.
# Why it matters: the direction is all that this measure adds to mutual information. Tables of which series drives which one
#   are transposed; both numbers are plausible.
# Versions: nitime 0.12.1, scipy 1.17.1, numpy 2.4.6, matplotlib 3.11.2, nibabel 5.4.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q nitime==0.12.1 scipy==1.17.1 numpy==2.4.6 matplotlib==3.11.2 nibabel==5.4.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from collections import Counter
from math import log2

import numpy as np
from nitime.algorithms.entropy import transfer_entropy


def count(source, target):
    """Return the sum of p(next, own, other) * log2(p(next | own, other) / p(next | own)) over counts."""
    triples = Counter(zip(target[1:], target[:-1], source[:-1]))
    pasts, steps, own = Counter(), Counter(), Counter()
    for (future, past, other), number in triples.items():
        pasts[past, other] += number
        steps[future, past] += number
        own[past] += number
    return sum(
        number / (len(target) - 1) * log2(number * own[past] / pasts[past, other] / steps[future, past])
        for (future, past, other), number in triples.items()
    )


generator = np.random.default_rng(0)
first = generator.integers(0, 2, 20000)
for errors in (0, 0.2):
    second = np.roll(first, 1) ^ (generator.random(len(first)) < errors)  # repeats the first series one step later
    given = transfer_entropy(first, second), transfer_entropy(second, first)
    counted = count(first.tolist(), second.tolist()), count(second.tolist(), first.tolist())
    print(f"{errors:.0%} errors: nitime {given[0]:.2f} and {given[1]:.2f}; counted {counted[0]:.2f} from the first to the "
          f"second series and {counted[1]:.2f} back")
    assert counted[0] > 0.25 and counted[1] < 0.01
    assert np.allclose(given, counted[::-1], atol=0.01), "the behaviour changed"
PYTHON
