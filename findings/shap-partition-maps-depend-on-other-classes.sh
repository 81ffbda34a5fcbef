#!/usr/bin/env bash
# Guess: `outputs` of shap's PartitionExplainer chooses which classes are explained, and `batch_size` how many masks are
#   evaluated at once, so neither changes the map of a class.
# Behaviour: with shap 0.51.0 both do. With the default 500 evaluations the predicted class's map alone and the one that
#   comes with three more classes correlate by .72, .97 and .97 on three images, with all ten by .66, .95 and .96; maps
#   of batches of 10 and 200 by .88, .98 and .99. All maps have the same sum, so additivity holds.
# Cause: `owen` (shap/explainers/_partition.py) splits regions in the order of their largest effect on any of the asked
#   classes until evaluations run out, and takes a whole batch of regions from the queue before it sees their parts.
# Why it matters: the examples of shap show four classes; a study explains one. A smaller GPU gives other maps.
# Versions: shap 0.51.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q shap==0.51.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import shap
import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 16, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(400, 10)]
network = nn.Sequential(*layers).eval()


def classify(images):
    return network(torch.tensor(images, dtype=torch.float32).permute(0, 3, 1, 2)).detach().numpy()


def explain(classes=1, batch_size=10):
    explainer = shap.PartitionExplainer(classify, shap.maskers.Image(np.full((32, 32, 3), 0.5), (32, 32, 3)))
    order = shap.Explanation.argsort.flip[:classes]
    return explainer(images, max_evals=500, batch_size=batch_size, outputs=order, silent=True).values[..., 0]


images = np.random.default_rng(0).random((3, 32, 32, 3))
alone = explain()
assert np.array_equal(alone, explain()), "the explainer draws random numbers"
for name, maps in (("4 classes", explain(4)), ("10 classes", explain(10)), ("batches of 200", explain(batch_size=200))):
    alike = [np.corrcoef(first.ravel(), second.ravel())[0, 1] for first, second in zip(alone, maps)]
    print(f"1 class in batches of 10, and {name}: r =", ", ".join(f"{each:.2f}" for each in alike))
    assert min(alike) < 0.95, "the behaviour changed"
    assert np.allclose(alone.sum((1, 2, 3)), maps.sum((1, 2, 3)), atol=1e-5)
PYTHON
