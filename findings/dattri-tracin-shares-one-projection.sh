#!/usr/bin/env bash
# Guess: `projector_kwargs` of dattri's TracInAttributor is a setting of that attributor: it projects gradients onto
#   `proj_dim` random directions; without it they have the documented default of the class.
# Behaviour: with dattri 0.3.0 all attributors of a program share one set of settings, the last that was given. One
#   without `projector_kwargs` has scores that correlate by .96 with the exact products of gradients. After another one
#   was made with `proj_dim=8`, the first has .41, and so has each new default one. After a third with 512, the one of 8
#   has .96. None of them was touched in between.
# Cause: `__init__` (dattri/algorithm/tracin.py) takes the module's `DEFAULT_PROJECTOR_KWARGS` itself and not a copy,
#   and updates it.
# Why it matters: a comparison of dimensions makes its attributors in a list and runs them afterwards: all have the last
#   one's dimension, equal scores, and "the dimension does not matter". A default baseline depends on what ran before.
# Versions: dattri 0.3.0, torch 2.13.0, scipy 1.17.1, tqdm 4.68.0, PyYAML 6.0.3, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 scipy==1.17.1 tqdm==4.68.0 pyyaml==6.0.3 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps dattri==0.3.0
"$folder/venv/bin/python" -W ignore - 2> "$folder/log" <<'PYTHON' || { tail -5 "$folder/log"; exit 1; }
import torch
from dattri.algorithm import TracInAttributor
from dattri.task import AttributionTask
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images, labels = torch.randn(40, 100), torch.randint(0, 10, (40,))
network = nn.Linear(100, 10)


def compute_loss(parameters, batch):
    return nn.functional.cross_entropy(torch.func.functional_call(network, parameters, batch[0][None]), batch[1][None])


task = AttributionTask(compute_loss, network, network.state_dict())
loader = DataLoader(TensorDataset(images, labels), 40)
errors = (network(images).softmax(1) - nn.functional.one_hot(labels, 10)).detach()
exact = (errors @ errors.T) * (images @ images.T + 1)  # products of gradients of weights and biases, by hand


def make_attributor(**settings):
    return TracInAttributor(task, torch.ones(1), normalized_grad=False, **settings)


def correlate(attributor):
    scores = attributor.attribute(loader, loader).detach()
    return torch.corrcoef(torch.stack([scores.flatten(), exact.flatten()]))[0, 1].item()


first = make_attributor()
steps = [("default", correlate(first))]
small = make_attributor(projector_kwargs={"proj_dim": 8})
steps += [("the same after one of 8", correlate(first)), ("a new default", correlate(make_attributor()))]
large = make_attributor(projector_kwargs={"proj_dim": 512})
steps += [("the one of 8 after one of 512", correlate(small))]
for name, value in steps:
    print(f"{name}: r = {value:.2f}")
first.projector_kwargs = None
assert correlate(first) > 0.9999, "the exact products are wrong"
assert first.attribute.__self__ is first and small.projector_kwargs is large.projector_kwargs, "the behaviour changed"
values = [value for _, value in steps]
assert values[0] == values[3] > 0.9 and values[1] == values[2] < 0.6, "the behaviour changed"
PYTHON
