#!/usr/bin/env bash
# Guess: `IterableSource(images).shuffle(100, rng=random.Random(0))` of squirrel, a loader for training, has one order in all
#   runs, and `rng=random`, the module, which its documentation names, follows `random.seed(0)`, as a generator does that is
#   passed on.
# Behaviour: with squirrel-core 0.20.2 the order is another one in each run: of 1,000 images in two runs with equal generators
#   the places are unrelated. With `rng=random` the whole process loses its seed: what `random` draws afterwards, in
#   augmentations and splits, differs from run to run. Only `seed=0` gives one order.
# Cause: `get_random_range` (squirrel/iterstream/iterators.py) calls `rng.seed(seed)` on what it is given; without a seed that
#   is the process number and the time. `IterableSamplerSource` calls it, too.
# Why it matters: a run that sets all seeds and hands its generator on is not repeatable, and the difference between two
#   methods contains the order of the images, which was to be equal. The module's seed is lost for every other library.
# Versions: squirrel-core 0.20.2, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 tqdm==4.70.0 fsspec==2026.9.0
"$folder/venv/bin/pip" install -q --no-deps squirrel-core==0.20.2 # the rest of what it names serves stores in clouds
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import random
import sys
import types

import numpy as np

package = types.ModuleType("squirrel")  # without the catalogue of data sets, which its first file imports
package.__path__ = list(importlib.util.find_spec("squirrel").submodule_search_locations)
sys.modules["squirrel"] = package
from squirrel.iterstream import IterableSource


def run(**options):
    """Return the places of 1,000 images in a run with all seeds, and what Python draws after it."""
    random.seed(0)
    if options.get("rng") == "a generator":
        options = {"rng": random.Random(0)}
    order = list(IterableSource(list(range(1000))).shuffle(1000, initial=1000, **options))
    assert sorted(order) == list(range(1000))
    return np.argsort(order), random.random()


found = {}
for name, options in (("a generator", {"rng": "a generator"}), ("the module", {"rng": random}), ("a seed", {"seed": 0})):
    (one, after), (two, later) = run(**options), run(**options)
    found[name] = np.corrcoef(one, two)[0, 1], after == later
    print(f"given {name:11}: places in two runs correlate by {found[name][0]:5.2f}; "
          f"`random` draws the same afterwards: {found[name][1]}")
assert found["a seed"][0] > 0.999 and found["a seed"][1] and found["a generator"][1]
assert abs(found["a generator"][0]) < 0.2 and abs(found["the module"][0]) < 0.2, "the behaviour changed"
assert not found["the module"][1], "the module keeps its seed now"
PYTHON
