#!/usr/bin/env bash
# Guess: `LabelSampler(patch_size)` of TorchIO yields patches "with labeled voxels at their center", also for the one-hot labels
#   that TorchIO's own `OneHot` makes, as its documentation names labels of several channels.
# Behaviour: with torchio 1.2.1 each patch of one-hot labels has background at its centre, none a label: 200 of 200, though of
#   the same labels in one channel all 200 have a label. With `label_probabilities={0: 0, 1: 1, 2: 1}` both are right.
# Cause: without probabilities `get_probability_map` (torchio/data/sampler/label.py) marks what is above 0 in each channel, and
#   `process_probability_map` (weighted.py) reads channel 0 alone, which is the background.
# Why it matters: the sampler is chosen because lesions are rare. A network trained on its patches sees fewer of them than with
#   uniform sampling, and nothing is raised as long as there is background.
# Versions: torchio 1.2.1, torch 2.13.0 (CPU), numpy 2.4.6, SimpleITK 2.5.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchio==1.2.1 torch==2.13.0 numpy==2.4.6 SimpleITK==2.5.7
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
import torchio as tio

torch.manual_seed(0)
labels = torch.zeros(1, 32, 32, 32, dtype=torch.long)
labels[0, 10:16, 10:16, 10:16] = 1
labels[0, 20:26, 20:26, 20:26] = 2
image = tio.ScalarImage(tensor=torch.rand(1, 32, 32, 32))
subject = tio.Subject(image=image, labels=tio.LabelMap(tensor=labels))
encoded = tio.OneHot()(subject)
assert torch.equal(encoded.labels.data.argmax(0, keepdim=True), labels)
for probabilities in (None, {0: 0, 1: 1, 2: 1}):
    sampler = tio.LabelSampler(5, "labels", probabilities)
    for name, source in (("one channel", subject), ("one-hot", encoded)):
        centres = [patch.labels.data[:, 2, 2, 2] for patch in sampler(source, 200)]
        classes = [int(centre if len(centre) == 1 else centre.argmax()) for centre in centres]
        print(f"probabilities {probabilities}, {name}: {[classes.count(kind) for kind in range(3)]} centres of each label")
        wrong = probabilities is None and name == "one-hot"
        assert classes.count(0) == (200 if wrong else 0), "the behaviour changed"
PYTHON
