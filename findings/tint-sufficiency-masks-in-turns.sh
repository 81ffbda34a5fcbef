#!/usr/bin/env bash
# Guess: tint's `sufficiency(…, topk=.2)` keeps the 20 % of an image that matter most and masks the rest, in each of its
#   `n_samples`; `n_samples_batch_size` says how many samples are processed at once.
# Behaviour: with time-interpret 0.3.0 batches of samples take turns: the first keeps the top 20 %, the second the top
#   80 %, the third 20 % again. Without noise, one sample is .31 here, two samples in two batches are exactly the mean of
#   the scores for `topk=.2` and `topk=.8`. So do cross_entropy, accuracy, mae and mse with `mask_largest=False`.
# Cause: `_base_metric` (tint/metrics/base.py) writes `topk = 1 - topk` within its loop over batches.
# Why it matters: a score depends on a setting for memory, and mixes two questions; maps are ranked by neither.
# Versions: time-interpret 0.3.0, captum 0.9.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q time-interpret==0.3.0 captum==0.9.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from tint.metrics import cross_entropy, sufficiency
from torch import nn

torch.manual_seed(0)
network = nn.Linear(64, 5).eval()
nn.init.normal_(network.weight, std=0.3)
images = torch.randn(32, 64)
classes = network(images).argmax(1)
maps = torch.randn(32, 64)
for metric, more in ((sufficiency, {}), (cross_entropy, {"mask_largest": False})):
    masked = []
    hook = network.register_forward_pre_hook(lambda module, inputs: masked.append(int((inputs[0][0] == 0).sum())))
    settings = {"target": classes, "stdevs": 0.0, "n_samples_batch_size": 1, **more}
    scores = [metric(network, images, maps, topk=0.2, n_samples=samples, **settings) for samples in (1, 2, 4)]
    hook.remove()
    other = metric(network, images, maps, topk=0.8, n_samples=1, **settings)
    print(f"{metric.__name__}: 1 sample {scores[0]:.4f}, 2 samples {scores[1]:.4f}, 4 samples {scores[2]:.4f}")
    print(f"topk=.8, 1 sample: {other:.4f}; masked of 64 pixels, by sample {[count for count in masked if count]}")
    assert [count for count in masked if count] == [51, 51, 12, 51, 12, 51, 12], "the behaviour changed"
    assert abs(scores[1] - (scores[0] + other) / 2) < 1e-5 and abs(scores[0] - other) > 0.02, "the behaviour changed"
PYTHON
