#!/usr/bin/env bash
# Guess: `f1_detection` of TIAToolbox pairs cells with detections within a radius, one to one, and as many as can be paired; a
#   false detection far from all cells adds one false positive and changes nothing else.
# Behaviour: with TIAToolbox 2.1.3 it can take the pairs of others away. Two cells, a detection one pixel from one of them and
#   another 90 pixels away have the F1 score 0; without the far one it is .67. Of 200 cells, half of them found to within 2
#   pixels among 100 detections at random, it is .48, with the most pairs within the radius .59.
# Cause: `pair_coordinates` (tiatoolbox/utils/metrics.py) makes the sum of all distances smallest, those of pairs outside of the
#   radius too, and drops these afterwards. One long distance is saved by many pairs that are a little too far. The same was
#   found in another program, https://github.com/DIUx-xView/xview3-reference/issues/9.
# Why it matters: cells and lesions that maps or networks point at are scored by it. Images with as many detections as cells
#   suffer most, as fewer or many more detections leave room; so thresholds of one map are compared with unequal losses.
# Versions: tiatoolbox 2.1.3, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps tiatoolbox==2.1.3 # its metrics need no slides and no networks
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.spatial.distance import cdist

package = importlib.util.find_spec("tiatoolbox").submodule_search_locations[0]
described = importlib.util.spec_from_file_location("metrics", Path(package) / "utils" / "metrics.py")
metrics = importlib.util.module_from_spec(described)
described.loader.exec_module(metrics)


def compute_by_hand(cells, found, radius):
    """Return the F1 score with the most pairs within the radius."""
    partners = maximum_bipartite_matching(csr_array(cdist(cells, found) <= radius), perm_type="column")
    return (partners >= 0).sum() / (0.5 * len(cells) + 0.5 * len(found))


cells, near, far = np.array([[0.0, 0], [10, 0]]), np.array([[9.0, 0]]), np.array([[100.0, 0]])
both = np.vstack([near, far])
alone, given = metrics.f1_detection(cells, near, 6), metrics.f1_detection(cells, both, 6)
right = compute_by_hand(cells, both, 6)
print(f"two cells: {alone:.2f} with the near detection, {given:.2f} with a far one too, by hand {right:.2f}")
assert abs(alone - 2 / 3) < 1e-9 and right == 0.5 and given == 0, "the behaviour changed"
scores = {}
for share, others in ((0.5, 0), (0.5, 100), (0.8, 50), (0.8, 200)):
    scores[share, others] = []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        cells = generator.uniform(0, 250, (200, 2))
        chosen = cells[generator.random(200) < share]
        found = np.vstack([chosen + generator.normal(0, 1.5, chosen.shape), generator.uniform(0, 250, (others, 2))])
        scores[share, others].append((metrics.f1_detection(cells, found, 6), compute_by_hand(cells, found, 6)))
    given, right = np.mean(scores[share, others], axis=0)
    print(f"200 cells, {share:.0%} found, {others} detections at random: {given:.2f}, by hand {right:.2f}")
    assert abs(given - right) < 0.005 if not others else given < right
given, right = np.mean(scores[0.5, 100], axis=0)
assert right - given > 0.08, "the behaviour changed"
PYTHON
