#!/usr/bin/env bash
# Guess: `MislabelingDetectionMetric` of quanda ranks training images by their self-influence, so its score does not
#   change if all influences are multiplied by a constant, as another learning rate or loss reduction does.
# Behaviour: with quanda 0.5.0 influences that find all of 100 mislabelled images among 2,000 score .975 if they lie
#   between 0 and 2, .58 if they are a hundredth of it, and .53 if they are a ten-thousandth: images are then ranked
#   from the last to the first, whatever the influences. Mislabelled images that stand last score .975 for any small
#   influences.
# Cause: `SelfInfluenceRanking.get_global_rank` (quanda/explainers/global_ranking/self_influence_ranking.py) adds .0001
#   times the number of the image to break ties, which is 5 for the 50,000th image.
# Why it matters: the influences of a trained network are small, as its gradients are, and differ between explainers by
#   orders of magnitude. The benchmark compares them, and names the one whose units are largest. No issue on it was
#   found.
# Versions: quanda 0.5.0, captum 0.8.0, omegaconf 2.3.0, datasets 4.8.4, pyarrow 21.0.0, torch 2.13.0, torchvision 0.28.0,
#   numpy 1.26.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q quanda==0.5.0 omegaconf==2.3.0 datasets==4.8.4 pyarrow==21.0.0 torch==2.13.0 \
  torchvision==0.28.0 numpy==1.26.4
FOLDER=$folder "$folder/venv/bin/python" -W ignore - 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import sys

import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from quanda.metrics.downstream_eval import MislabelingDetectionMetric

IMAGES, WRONG = 2000, 100
generator = torch.Generator().manual_seed(0)
data = torch.utils.data.TensorDataset(torch.zeros(IMAGES, 1), torch.zeros(IMAGES).long())
network = torch.nn.Linear(1, 2)


def score(influences, wrong):
    """Return quanda's score, and the area under the curve of found images by the influences themselves."""
    metric = MislabelingDetectionMetric(network, data, wrong, precomputed_self_influence=influences)
    found = torch.zeros(IMAGES)
    found[wrong] = 1
    curve = found[influences.argsort(descending=True)].cumsum(0) / len(wrong)
    return metric.compute()["score"], (torch.trapezoid(curve) / IMAGES).item()


scattered = torch.randperm(IMAGES, generator=generator)[:WRONG].tolist()
influences = torch.rand(IMAGES, generator=generator)
influences[scattered] += 1
for scale in (1, 0.01, 0.0001):
    found, right = score(scale * influences, scattered)
    print(f"influences x {scale}: {found:.3f}, by the influences {right:.3f}")
    assert abs(right - 0.975) < 1e-3, "the behaviour changed"
    assert abs(found - right) < 0.01 if scale == 1 else found < 0.65, "the behaviour changed"
last = list(range(IMAGES - WRONG, IMAGES))
found, right = score(0.0001 * torch.rand(IMAGES, generator=generator), last)
print(f"small random influences, mislabelled images last: {found:.3f}, by the influences {right:.3f}")
assert found > 0.97 and right < 0.6, "the behaviour changed"
PYTHON
