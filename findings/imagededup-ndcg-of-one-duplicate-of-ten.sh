#!/usr/bin/env bash
# Guess: the normalised discounted cumulative gain (NDCG) of imagededup compares a list of found duplicates with the ideal one,
#   which begins with all true duplicates; what is not found costs gain.
# Behaviour: with imagededup 0.3.3.post2 a missed duplicate costs nothing. In groups of ten images a method that finds one
#   duplicate of each has 1.00, one that finds all nine behind a false one .83. By the definition they have .24 and .83;
#   the mean average precision of the same call has .11 and .79.
# Cause: the ideal order (imagededup/handlers/metrics/information_retrieval.py) is that of the retrieved list itself, sorted by
#   relevance; the true duplicates beyond it are left out. Lists of one right name are ideal by their making.
# Why it matters: thresholds of hashes and networks are chosen by this number. The strictest threshold that still finds something
#   of each group has the best NDCG, and the copies that it leaves lie in the training and the test part.
# Versions: imagededup 0.3.3.post2, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps imagededup==0.3.3.post2 # its metrics need no network
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from imagededup.handlers.metrics.information_retrieval import get_all_metrics

GROUP, GROUPS = 10, 6
names = [f"{group}-{place}.png" for group in range(GROUPS) for place in range(GROUP)]
truth = {name: [other for other in names if other[0] == name[0] and other != name] for name in names}
partner = {name: f"{name[0]}-{int(name[2]) ^ 1}.png" for name in names}
stranger = {name: f"{int(name[0]) ^ 1}-{name[2]}.png" for name in names}
retrieved = {
    "one of nine": {name: [partner[name]] for name in names},
    "all nine behind a false one": {name: [stranger[name], *truth[name]] for name in names},
    "all nine": truth,
}


def compute_by_definition(found):
    """Return the mean over images of the gain of the list, divided by that of all true duplicates in front."""
    values = []
    for name, listed in found.items():
        gains = 1 / np.log2(np.arange(2, 2 + max(len(listed), len(truth[name]))))
        relevant = np.array([other in truth[name] for other in listed], float)
        values.append((relevant * gains[: len(listed)]).sum() / gains[: len(truth[name])].sum())
    return np.mean(values)


scores = {}
for name, found in retrieved.items():
    given = get_all_metrics(truth, found)  # `evaluate` calls it after its checks
    scores[name] = given["ndcg"], compute_by_definition(found)
    print(f"{name}: NDCG {given['ndcg']:.2f}, by definition {scores[name][1]:.2f}, "
          f"mean average precision {given['map']:.2f}")
assert scores["all nine"] == (1, 1) and scores["one of nine"][1] < 0.3
assert scores["one of nine"][0] == 1 > scores["all nine behind a false one"][0], "the behaviour changed"
PYTHON
