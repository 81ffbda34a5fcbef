#!/usr/bin/env bash
# Guess: `n_samples` of tint's metrics (comprehensiveness, log odds and others) repeats each image with fresh noise of
#   size `stdevs`; without noise it changes nothing, and `n_samples_batch_size` only sets memory.
# Behaviour: with time-interpret 0.3.0 and two samples or more, most images are masked by the map of another image of the
#   batch and scored for that one's class. Without any noise the comprehensiveness of the exact maps of a linear network
#   is .68 with one sample and .05 with four, as by hand with exchanged maps and classes; random maps have .15. With
#   `n_samples_batch_size=1` it is .68 again. A batch of one image is right.
# Cause: `add_noise_to_inputs` repeats image by image (1, 1, 2, 2), but the functions of captum that `_base_metric`
#   (tint/metrics/base.py) calls for maps and classes repeat the whole batch (1, 2, 1, 2).
# Why it matters: good explainers score as random ones, and a table ranks them by chance.
# Versions: time-interpret 0.3.0, captum 0.9.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q time-interpret==0.3.0 captum==0.9.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from tint.metrics import comprehensiveness, log_odds
from torch import nn

torch.manual_seed(0)
network = nn.Linear(64, 5).eval()
nn.init.normal_(network.weight, std=0.3)
images = torch.randn(32, 64)
classes = network(images).argmax(1)
maps = (network.weight[classes] * images).detach()


def remove_by_hand(images, maps, classes):
    removed = images.scatter(1, maps.topk(12).indices, 0)
    before, after = (network(each).softmax(1).gather(1, classes[:, None]) for each in (images, removed))
    return float((before - after).mean())


def score(metric, samples, at_once=None, only=slice(None)):
    settings = {"n_samples": samples, "n_samples_batch_size": at_once, "stdevs": 0.0, "topk": 0.2}
    return metric(network, images[only], maps[only], target=classes[only], **settings)


right = remove_by_hand(images, maps, classes)
exchanged = remove_by_hand(images.repeat_interleave(4, 0), maps.repeat(4, 1), classes.repeat(4))
random = remove_by_hand(images, torch.randn(32, 64), classes)
one, four, one_by_one = (score(comprehensiveness, *each) for each in ((1,), (4,), (4, 1)))
print(f"comprehensiveness: 1 sample {one:.3f}, 4 samples {four:.3f}, 4 samples one by one {one_by_one:.3f}")
print(f"by hand {right:.3f}, with maps and classes of other images {exchanged:.3f}, with random maps {random:.3f}")
print(f"log odds: 1 sample {score(log_odds, 1):.2f}, 4 samples {score(log_odds, 4):.2f}")
assert abs(one - right) < 1e-5 and abs(one_by_one - right) < 1e-5, "the reference changed"
assert abs(four - exchanged) < 1e-5 and four < random < right / 2, "the behaviour changed"
assert score(log_odds, 1) < -4 and score(log_odds, 4) > -1, "the behaviour changed"
alone = [score(comprehensiveness, samples, only=slice(0, 1)) for samples in (1, 4)]
assert abs(alone[0] - alone[1]) < 1e-5, "a batch of one image changed"
PYTHON
