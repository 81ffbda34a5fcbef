#!/usr/bin/env bash
# Guess: the pruners of KD_Lib return the network of the epoch with the best test accuracy, as their variables and the
#   one comparison with `best_acc` say, so more epochs of training never make the returned network worse.
# Behaviour: with KD-Lib 0.0.32 they return one of the first epochs. In 15 epochs the test accuracy rises from 38 to
#   62 %, and the network that comes back has 42 %, that of epoch 2. With 2 epochs it is the same network, bit by bit.
# Cause: `finetune_model` (KD_Lib/Pruning/common/iterative_base_class.py) stores the *training* accuracy of the epoch as
#   the best test accuracy. The next epoch has to beat it on the test set, which no network that overfits does.
# Why it matters: all later training is thrown away, in each iteration of pruning, and the next weights are pruned by
#   magnitudes of barely trained networks. The printed test accuracies are those of networks that are not returned.
# Versions: KD-Lib 0.0.32, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps KD-Lib==0.0.32
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import io
import re
from contextlib import redirect_stdout

import torch
from KD_Lib.Pruning import WeightThresholdPruner
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(epochs):
    """Return the weights, their test accuracy, and the test accuracies that were printed after each epoch."""
    torch.manual_seed(0)
    directions, vectors = torch.randn(64, 5), torch.randn(1200, 64)
    classes = (vectors @ directions).argmax(1)
    training = DataLoader(TensorDataset(vectors[:200], classes[:200]), batch_size=20)
    test = DataLoader(TensorDataset(vectors[200:], classes[200:]), batch_size=1000)
    network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 5))
    pruner = WeightThresholdPruner(network, training, test)
    with redirect_stdout(io.StringIO()) as printed:
        pruner.prune(num_iterations=1, train_epochs=epochs, save_models=False, threshold=0.01)
    accuracy = 100 * (network(vectors[200:]).argmax(1) == classes[200:]).float().mean().item()
    seen = [float(one) for one in re.findall(r"Test Accuracy: (\S+)", printed.getvalue())]
    return network.state_dict(), accuracy, seen


weights, accuracy, seen = train(15)
print("after each epoch:", *seen)
print(f"returned: {accuracy:.1f} %, that of epoch {1 + seen.index(round(accuracy, 1))}; best epoch: {max(seen)} %")
assert accuracy < 45 and max(seen) > 58, "the behaviour changed"
other = train(2)[0]
assert all(torch.equal(weights[name], other[name]) for name in weights), "the behaviour changed"
print("2 and 15 epochs return equal weights")
PYTHON
