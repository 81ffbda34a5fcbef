#!/usr/bin/env bash
# Guess: `PRAuC(num_classes, n_bins, average=True)` of BaaL is the area under the curve of precision and recall: 1 for a
#   network that is right and sure about all images, and near the share of a class for one that guesses.
# Behaviour: with BaaL 2.1.0 it is 0 for the network that is right and sure. Networks that separate the classes without
#   an error have .997, .78 and 0, the less, the surer they are; one that is wrong for a third of the images has .70.
# Cause: `PRAuC.value` (baal/utils/metrics.py) integrates from the lowest to the highest recall that 200 thresholds
#   between .02 and .99 reach, and not from 0: if the recall is 1 at all of them, the curve is one point.
# Why it matters: the metric follows active learning over its rounds, in which networks become surer, so the curve falls
#   as they improve; to choose a network by it is to choose a less certain one.
# Versions: baal 2.1.0, torch 2.13.0, torchmetrics 1.9.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q baal==2.1.0 torch==2.13.0 torchmetrics==1.9.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from baal.utils.metrics import PRAuC
from sklearn.metrics import average_precision_score

torch.manual_seed(0)
labels = torch.randint(0, 3, (1000,))
classes = torch.nn.functional.one_hot(labels, 3).float()
noise = torch.randn(1000, 3)


def score(logits):
    """Return BaaL's area, scikit-learn's average precision (a mean over classes) and the accuracy."""
    metric = PRAuC(3, 200, True)
    metric.update(logits, labels)
    shares = logits.softmax(1).numpy()
    precision = average_precision_score(classes.numpy(), shares)
    return float(metric.value), precision, float((logits.argmax(1) == labels).float().mean())


found = {
    "sure and right": score(20 * classes + noise),
    "less sure and right": score(5 * classes + noise / 3),
    "hardly sure and right": score(2 * classes + noise / 4),
    "right in two of three": score(classes + noise),
}
for name, values in found.items():
    print("{}: area {:.3f}, average precision {:.3f}, accuracy {:.3f}".format(name, *values))
assert found["sure and right"][0] == 0 and found["sure and right"][1] > 0.9999, "the behaviour changed"
assert found["less sure and right"][0] < 0.9 and found["less sure and right"][2] == 1, "the behaviour changed"
assert found["hardly sure and right"][0] > 0.99, "the behaviour changed"
assert found["right in two of three"][0] > 0.6 > found["right in two of three"][2] - 0.1, "the behaviour changed"
PYTHON
