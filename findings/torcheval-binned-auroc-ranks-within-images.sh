#!/usr/bin/env bash
# Guess: `multiclass_binned_auroc` of torcheval is `multiclass_auroc` up to the width of the bins: for each class, how
#   often an image of it has a higher probability of it than another image; `average=None` returns a number for each
#   class.
# Behaviour: with torcheval 0.0.7 it ranks the classes of each image, and `average=None` returns a number for each
#   image. A network that gives every image the same probabilities has .92 on a data set with 90 % of one class, where
#   `multiclass_auroc` and scikit-learn say .5. One that tells three classes apart with an AUROC of .93 has .62 if one
#   class has lower logits throughout, by 4. A thousand bins change nothing.
# Cause: `_multiclass_binned_auroc_compute` (torcheval/metrics/functional/classification/binned_auroc.py) sums over the
#   last axis of (bins, images, classes), as the binary function does for (bins, 1, images). The example of the
#   docstring shows five values for three classes.
# Why it matters: bins are a setting of speed, it seems, and change the question. On unbalanced data the metric rewards
#   the frequent class, as accuracy does, which AUROC is chosen to avoid. MulticlassBinnedAUROC calls the same function.
# Versions: torcheval 0.0.7, torch 2.13.0, torchvision 0.28.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torcheval==0.0.7 torch==2.13.0 torchvision==0.28.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import torch
from sklearn.metrics import roc_auc_score

try:
    import torchvision
except RuntimeError:  # a torchvision of another build than torch lacks two operators, which nothing here calls
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    library.define("qnms(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    for name in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[name]

from torcheval.metrics import MulticlassBinnedAUROC
from torcheval.metrics.functional import multiclass_auroc, multiclass_binned_auroc


def score(probabilities, classes):
    """Return the AUROC of torcheval, of scikit-learn and in a thousand bins."""
    exact = multiclass_auroc(probabilities, classes, num_classes=3)
    binned = multiclass_binned_auroc(probabilities, classes, num_classes=3, threshold=1000)[0]
    each = multiclass_binned_auroc(probabilities, classes, num_classes=3, average=None)[0]
    metric = MulticlassBinnedAUROC(num_classes=3, threshold=1000).update(probabilities, classes)
    assert each.shape == classes.shape and torch.isclose(metric.compute()[0], binned), "the behaviour changed"
    reference = roc_auc_score(classes, probabilities, multi_class="ovr")
    assert abs(exact - reference) < 1e-4
    return float(exact), float(binned)


generator = torch.Generator().manual_seed(0)
unbalanced = torch.multinomial(torch.tensor([0.9, 0.05, 0.05]), 600, replacement=True, generator=generator)
constant = score(torch.tensor([0.9, 0.05, 0.05]).expand(600, 3), unbalanced)
classes = torch.randint(3, (600,), generator=generator)
logits = torch.randn(600, 3, generator=generator) + 2 * torch.nn.functional.one_hot(classes, 3)
shifted = score((logits - torch.tensor([0.0, 0.0, 4.0])).softmax(1), classes)
print(f"one answer for all images: {constant[0]:.2f}, binned {constant[1]:.2f}")
print(f"a class of lower logits: {shifted[0]:.2f}, binned {shifted[1]:.2f}")
assert constant[0] == 0.5 and constant[1] > 0.9, "the behaviour changed"
assert shifted[0] > 0.9 and shifted[1] < 0.75, "the behaviour changed"
PYTHON
