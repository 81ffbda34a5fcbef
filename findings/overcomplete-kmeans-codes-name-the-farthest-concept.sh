#!/usr/bin/env bash
# Guess: with `SkKMeans` of Overcomplete, dictionary learning for concepts of vision networks, the code of an image says to which
#   concept (cluster) it belongs: "min ||X - ZD||, Z in {0, 1}", as its documentation says. So the largest code is that of its
#   concept, and `decode(encode(x))` is the centre of the cluster.
# Behaviour: with overcomplete 0.3.0 the code of each of 2,000 images is smallest for its own concept, and largest for the concept
#   that is farthest away. Decoded, images have an R2 of about -60,000; zeros and ones of the same clusters have .99. The ten
#   images with the largest code of a concept, which the package's pictures show, are those least like it.
# Cause: `encode` (overcomplete/optimization/sklearn_wrappers.py) calls `KMeans.transform`, which returns distances from the
#   centres, and `decode` multiplies them by the centres. NMF, PCA and sparse autoencoders of the package give weights there.
# Why it matters: k-means is the baseline of concept discovery (ACE) with which NMF and autoencoders are compared by these codes:
#   sparsity, importance and top images of its concepts are those of other concepts.
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
from overcomplete.metrics import r2_score
from overcomplete.optimization import SkKMeans

torch.manual_seed(0)
centres = 3 * torch.randn(10, 64) + 2
concepts = torch.randint(0, 10, (2000,))
activations = centres[concepts] + 0.3 * torch.randn(2000, 64)

model = SkKMeans(10, random_state=0, n_init=3)
model.fit(activations)
codes = model.encode(activations)
clusters = torch.from_numpy(model.model.labels_).long()
largest = (codes.argmax(1) == clusters).float().mean().item()
smallest = (codes.argmin(1) == clusters).float().mean().item()
decoded = r2_score(activations, model.decode(codes)).item()
by_hand = r2_score(activations, model.decode(torch.eye(10)[clusters])).item()
top = torch.stack([(clusters[codes[:, concept].argsort()[-10:]] == concept).float().mean() for concept in range(10)])
print(f"the largest code is that of the image's cluster for {largest:.0%} of the images, the smallest for {smallest:.0%}")
print(f"R2 of what is decoded {decoded:,.0f}, from zeros and ones by hand {by_hand:.2f}")
print(f"of the ten images with the largest code of a concept {top.mean():.0%} are of it")
assert by_hand > 0.95
assert largest == 0 and smallest == 1 and decoded < -100 and top.max() == 0, "the behaviour changed"
PYTHON
