#!/usr/bin/env bash
# Guess: `VariationRatio` of Torch-Uncertainty is, for each image, the share of the ensemble's networks whose class is not
#   the most frequent one; it takes probabilities (images, networks, classes), as its documentation says and as
#   `Disagreement` and `MutualInformation` beside it do.
# Behaviour: with torch-uncertainty 0.13.0 images and networks change places: with `reduction="none"` 200 images and 5
#   networks have 5 values, one for each network. Networks that always agree have .87 where 0 is right, as ten classes
#   occur among the images; networks that never agree have 0 if each of them has the same class for all images.
# Cause: `update` (torch_uncertainty/metrics/classification/variation_ratio.py) swaps the first two axes, as if
#   networks came first. The example in the documentation shows the wrong number, .4500; by its formula it is .3500.
#   `VariationRatioCriterion` (torch_uncertainty/ood_criteria.py), which finds unknown images, passes the documented order.
# Why it matters: the number is high and steady for every data set with many classes, so it reads as a healthy
#   uncertainty of the ensemble. It says how varied the images of the batch are.
# Versions: torch-uncertainty 0.13.0, lightning 2.6.0, torchmetrics 1.9.0, torch 2.13.0, torchvision 0.28.0, timm 1.0.31,
#   numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch-uncertainty==0.13.0 "lightning[pytorch-extra]==2.6.0" torchmetrics==1.9.0 \
  torch==2.13.0 torchvision==0.28.0 timm==1.0.31 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torch_uncertainty.metrics import Disagreement, VariationRatio
from torch_uncertainty.ood_criteria import VariationRatioCriterion

generator = torch.Generator().manual_seed(0)
classes = torch.randint(0, 10, (200,), generator=generator)
agreeing = torch.eye(10)[classes][:, None].repeat(1, 5, 1)  # (images, networks, classes)
stubborn = torch.eye(10)[:5][None].repeat(200, 1, 1)  # each network has its own class for all images

for name, probabilities in (("agreeing", agreeing), ("stubborn", stubborn)):
    votes = probabilities.argmax(2)
    by_hand = (1 - (votes == votes.mode(1).values[:, None]).float().mean(1)).mean().item()
    single = VariationRatio(probabilistic=False, reduction="none")
    single.update(probabilities)
    mean = VariationRatio(probabilistic=False)
    mean.update(probabilities)
    disagreement = Disagreement()
    disagreement.update(probabilities)
    found = VariationRatioCriterion()(probabilities.transpose(0, 1))
    print(
        f"{name}: variation ratio {mean.compute():.2f}, by hand {by_hand:.2f}, disagreement {disagreement.compute():.2f}; "
        f"{len(single.compute())} values, criterion {len(found)}, of 200 images"
    )
    assert len(single.compute()) == len(found) == 5, "the behaviour changed"
    if name == "agreeing":
        assert mean.compute() > 0.75 and by_hand == 0 and disagreement.compute() == 0, "the behaviour changed"
    else:
        assert mean.compute() == 0 and abs(by_hand - 0.8) < 1e-6 and disagreement.compute() == 1, "the behaviour changed"

example = torch.tensor([[[0.7, 0.3], [0.6, 0.4], [0.8, 0.2]], [[0.4, 0.6], [0.5, 0.5], [0.3, 0.7]]])
metric = VariationRatio()
metric.update(example)
means = example.mean(1)
print(f"documented example: {metric.compute():.4f}, by hand {(1 - means.max(1).values).mean():.4f}")
PYTHON
