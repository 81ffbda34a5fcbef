#!/usr/bin/env bash
# Guess: `ModelRandomizationMetric` of quanda draws new weights for each layer of the randomised network, and draws them
#   from its own generator, as its argument `seed` and its attribute `generator` suggest.
# Behaviour: with quanda 0.5.0 layers of one shape get the same weights: both 8-to-8 convolutions of a small network are
#   equal, and so are its three linear layers with their biases. Each checkpoint has the same random network. Making the
#   metric resets torch's global generator: what a script draws next is the same whatever seed it had set.
# Cause: `_randomize_parameter` (quanda/metrics/heuristics/model_randomization.py) calls `torch.manual_seed(self.seed)`
#   before each `reset_parameters`; the generator is used for modules without that function.
# Why it matters: the baseline of the randomisation test is not a network as any initialisation makes it. In a ResNet
#   all blocks of a stage are one block, whose products are powers of one matrix. Trainings after the metric share one
#   seed. No issue on it was found.
# Versions: quanda 0.5.0, captum 0.8.0, omegaconf 2.3.0, datasets 4.8.4, pyarrow 21.0.0, torch 2.13.0, torchvision 0.28.0,
#   numpy 1.26.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q quanda==0.5.0 omegaconf==2.3.0 datasets==4.8.4 pyarrow==21.0.0 torch==2.13.0 \
  torchvision==0.28.0 numpy==1.26.4
FOLDER=$folder "$folder/venv/bin/python" -W ignore - 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import os
import sys
from pathlib import Path

import torch

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from quanda.explainers import RandomExplainer
from quanda.metrics.heuristics import ModelRandomizationMetric
from torch import nn

folder = os.environ["FOLDER"]
layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.AdaptiveAvgPool2d(1)
network = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
checkpoint = str(Path(folder) / "network.pt")
torch.save(network.state_dict(), checkpoint)
data = torch.utils.data.TensorDataset(torch.zeros(10, 3, 8, 8), torch.zeros(10).long())
drawn = []
for seed in (1, 2):
    torch.manual_seed(seed)
    metric = ModelRandomizationMetric(network, "network", folder, data, checkpoint, RandomExplainer, {})
    drawn.append(torch.rand(1).item())
convolutions = metric.rand_model[2].weight, metric.rand_model[4].weight
linear = [metric.rand_model[place] for place in (7, 9, 11)]
assert torch.equal(*convolutions), "the behaviour changed"
assert all(torch.equal(linear[0].weight, other.weight) for other in linear[1:]), "the behaviour changed"
assert all(torch.equal(linear[0].bias, other.bias) for other in linear[1:]), "the behaviour changed"
assert not torch.equal(network[2].weight, network[4].weight)
print("two convolutions and three linear layers of the randomised network are equal")
print(f"drawn after the metric, with seeds 1 and 2: {drawn[0]:.4f}, {drawn[1]:.4f}")
assert drawn[0] == drawn[1], "the behaviour changed"
PYTHON
