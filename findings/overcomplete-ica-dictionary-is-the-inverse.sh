#!/usr/bin/env bash
# Guess: `get_dictionary()` of Overcomplete returns the D of "min ||X - ZD||": the directions of the concepts, so that the codes
#   times D are the activations, and a concept's direction is the one along which it moves them. It is so for NMF and PCA.
# Behaviour: with overcomplete 0.3.0 and `SkICA` codes times the dictionary explain .22 of centred activations that `decode`
#   explains to 1.00. The cosine of a true concept's direction with its best row of the dictionary is .46 to .60, with that of
#   the mixing matrix 1.00. `decode` itself leaves the mean out: of activations with a mean it explains -4.7.
# Cause: the dictionary is `FastICA.components_` (overcomplete/optimization/sklearn_wrappers.py), which takes
#   activations to codes; what takes codes to activations is its pseudo-inverse, `mixing_`, that `decode` uses.
# Why it matters: the dictionary is what importance of concepts (gradient times direction), steering, matching of dictionaries
#   (`hungarian_loss`) and their collinearity are computed with: for ICA with filters in place of patterns.
# Versions: overcomplete 0.3.0, torch 2.13.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 scikit-learn==1.9.1 numpy==2.4.6 pillow==13.0.0 tqdm==4.70.0
"$folder/venv/bin/pip" install -q --no-deps overcomplete==0.3.0 # its networks and pictures need more
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import sys
import types

import torch

package = types.ModuleType("overcomplete")  # without networks and pictures, which its first file imports
package.__path__ = list(importlib.util.find_spec("overcomplete").submodule_search_locations)
sys.modules["overcomplete"] = package
from overcomplete.optimization import SkICA, SkNMF, SkPCA


def explain(activations, reconstruction):
    return 1 - ((activations - reconstruction) ** 2).sum().item() / ((activations - activations.mean(0)) ** 2).sum().item()


torch.manual_seed(0)
sources = torch.rand(2000, 5).log().neg()  # independent, exponential
directions = torch.rand(5, 20)
found = {}
for kind, options in ((SkNMF, {"max_iter": 2000}), (SkPCA, {}), (SkICA, {"max_iter": 1000})):
    activations = sources @ directions
    if kind is not SkNMF:
        activations = activations - activations.mean(0)
    model = kind(5, random_state=0, **options)
    model.fit(activations)
    codes = model.encode(activations)
    found[kind] = [explain(activations, values) for values in (model.decode(codes), codes @ model.get_dictionary())]
    print(f"{kind.__name__}: decode explains {found[kind][0]:.2f}, codes times dictionary {found[kind][1]:.2f}")

rows = {"dictionary": model.get_dictionary(), "mixing matrix": torch.tensor(model.model.mixing_.T)}
cosines = {}
for name, values in rows.items():
    values, true = (torch.nn.functional.normalize(matrix.double(), dim=1) for matrix in (values, directions))
    cosines[name] = (true @ values.T).abs().amax(1)
    print(f"cosines of the five true directions with the {name}: {[round(value, 2) for value in cosines[name].tolist()]}")
shifted = activations + 3
model.fit(shifted)
mean = explain(shifted, model.decode(model.encode(shifted)))
print(f"activations with a mean: decode explains {mean:.1f}")

assert all(min(found[kind]) > 0.95 for kind in (SkNMF, SkPCA)) and found[SkICA][0] > 0.99
assert cosines["mixing matrix"].min() > 0.98
assert found[SkICA][1] < 0.5 and cosines["dictionary"].max() < 0.95 and mean < 0, "the behaviour changed"
PYTHON
