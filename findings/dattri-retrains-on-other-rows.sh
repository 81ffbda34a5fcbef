#!/usr/bin/env bash
# Guess: `retrain_lds(train, loader, …)` of dattri trains on random halves of the rows that the loader yields, whatever
#   sampler chooses them, so the linear datamodelling score (LDS) of one method is the same for any rows of a data set.
# Behaviour: with dattri 0.3.0 a loader of n rows stands for the first n rows of its data set. Of a linear regression
#   with exact influence functions the LDS is .80 for the first 60 of 120 rows, -.01 for the last 60, and .04 for every
#   second one. None and a half of the rows that were trained on are the loader's. So it is with `retrain_loo`. With a
#   `torch.utils.data.Subset` in place of the sampler the LDS is .84 and .80.
# Cause: both functions (dattri/model_util/retrain.py) count `len(dataloader.sampler)` and take that many rows of
#   `dataloader.dataset` from its start; which rows the sampler yields is never asked. Attributors do ask.
# Why it matters: a sampler is how dattri's own examples choose rows, always the first ones, and how a validation part
#   or mislabelled rows are kept out. The ground truth is then that of other images, some of them held out, and the best
#   method has the score of chance, without a word.
# Versions: dattri 0.3.0, torch 2.13.0, scipy 1.17.1, tqdm 4.68.0, PyYAML 6.0.3, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 scipy==1.17.1 tqdm==4.68.0 pyyaml==6.0.3 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps dattri==0.3.0
"$folder/venv/bin/python" -W ignore - 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import tempfile

import torch
from dattri.algorithm import IFAttributorExplicit
from dattri.benchmark.utils import SubsetSampler
from dattri.metric import calculate_lds_ground_truth, lds
from dattri.model_util.retrain import retrain_lds, retrain_loo
from dattri.task import AttributionTask
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(0)
weights, columns, test_columns = torch.randn(5, 1), torch.randn(120, 5), torch.randn(20, 5)
data = TensorDataset(columns, columns @ weights + torch.randn(120, 1))
test = DataLoader(TensorDataset(test_columns, test_columns @ weights + torch.randn(20, 1)), batch_size=20)
trained_on = set()


def train(loader, seed=None):
    """Fit a linear regression to the rows of the loader, and note which rows these are."""
    columns, targets = (torch.cat(parts) for parts in zip(*loader))
    trained_on.update(targets.flatten().tolist())
    model = nn.Linear(5, 1, bias=False)
    model.weight.data = torch.linalg.lstsq(columns, targets).solution.T
    return model


def compute_losses(path, loader):
    model = nn.Linear(5, 1, bias=False)
    model.load_state_dict(torch.load(path))
    columns, targets = next(iter(loader))
    return (model(columns) - targets).square().flatten().detach()


def measure(loader, rows):
    """Return the mean LDS of exact influence functions, and the share of rows trained on that are the loader's."""
    model = train(loader)

    def compute_loss(parameters, batch):
        return (torch.func.functional_call(model, parameters, batch[0]) - batch[1]).square().mean()

    attributor = IFAttributorExplicit(AttributionTask(compute_loss, model, model.state_dict()))
    attributor.cache(loader)
    scores = attributor.attribute(loader, test).detach()
    trained_on.clear()
    with tempfile.TemporaryDirectory() as path:
        retrain_lds(train, loader, path, seed=0)
        score = lds(scores, calculate_lds_ground_truth(compute_losses, path, test))[0].mean().item()
    return score, len(trained_on & set(data[list(rows)][1].flatten().tolist())) / len(trained_on)


for name, rows in (("first", range(60)), ("last", range(60, 120)), ("every second", range(0, 120, 2))):
    score, own = measure(DataLoader(data, 60, sampler=SubsetSampler(rows)), rows)
    subset_score, subset_own = measure(DataLoader(Subset(data, rows), 60), rows)
    print(f"{name}: LDS {score:.2f}, {own:.0%} own rows; as a subset {subset_score:.2f}, {subset_own:.0%}")
    assert subset_score > 0.7 and subset_own == 1
    assert (score > 0.7) == (name == "first") and own == {"first": 1, "last": 0}.get(name, 0.5), "the behaviour changed"
trained_on.clear()
with tempfile.TemporaryDirectory() as path:
    retrain_loo(train, DataLoader(data, 60, sampler=SubsetSampler(range(60, 120))), path)
assert trained_on == set(data[:60][1].flatten().tolist()), "leave-one-out changed"
PYTHON
