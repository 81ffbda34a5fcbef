#!/usr/bin/env bash
# Guess: the curvature operators of curvlinops approximate the Hessian of the loss function that they get: with
#   `CrossEntropyLoss(weight=…)`, as for unbalanced classes, or `ignore_index`, KFAC and EKFAC change as GGN does.
# Behaviour: with curvlinops-for-pytorch 3.0.1 `KFACLinearOperator` and `EKFACLinearOperator` (`fisher_type="type-2"`)
#   return the matrix of the loss without weights, to the last bit, and count ignored images in full. EKFAC's trace is
#   exact for this linear network and a plain loss. With weights 1, 5 and 20 the right trace is six times as large; with
#   one class of three ignored it is 16 % smaller. Hessian and GGN operators are right. The loss is on the list of
#   supported ones, and the check for determinism passes.
# Cause: the backpropagated vectors of KFAC (curvlinops/kfac_utils.py, curvlinops/kfac.py) are roots of the Hessian of a
#   cross-entropy that they write down themselves from the probabilities; weights and ignored labels are not read.
# Why it matters: influence functions, Laplace approximations and natural gradients of networks that were trained with
#   class weights or void pixels use KFAC instead of GGN for speed. Rare classes, the reason for the weights, count
#   least.
# Versions: curvlinops-for-pytorch 3.0.1, torch 2.13.0, numpy 2.4.6. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q curvlinops-for-pytorch==3.0.1 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from curvlinops import EKFACLinearOperator, GGNLinearOperator, HessianLinearOperator, KFACLinearOperator

torch.manual_seed(0)
rows = torch.randn(30, 3, dtype=torch.double)
classes = torch.randint(0, 3, (30,))
network = torch.nn.Linear(3, 3, bias=False).double()
(weight,) = network.parameters()
identity = torch.eye(9, dtype=torch.double)
kinds = (HessianLinearOperator, GGNLinearOperator, EKFACLinearOperator, KFACLinearOperator)
options = {
    "plain": {},
    "weights 1, 5, 20": {"weight": torch.tensor([1, 5, 20], dtype=torch.double)},
    "class 2 ignored": {"ignore_index": 2},
}
found = {}
for name, arguments in options.items():
    loss = torch.nn.CrossEntropyLoss(**arguments, reduction="sum")
    hessian = torch.autograd.functional.hessian(lambda value: loss(rows @ value.T, classes), weight.detach())
    right = hessian.reshape(9, 9).trace().item()
    for kind in kinds:
        extra = {} if kind in kinds[:2] else {"fisher_type": "type-2"}
        found[name, kind] = kind(network, loss, [weight], [(rows, classes)], **extra) @ identity
    traces = {kind.__name__: round(found[name, kind].trace().item(), 2) for kind in kinds}
    print(f"{name}: trace of the Hessian by autograd {right:.2f}; {traces}")
    for kind in kinds[:2]:
        assert torch.allclose(found[name, kind], hessian.reshape(9, 9))
    for kind in kinds[2:]:
        assert torch.equal(found[name, kind], found["plain", kind]), "the behaviour changed"
    trace = found[name, EKFACLinearOperator].trace().item()
    assert abs(trace - right) < 1e-9 if name == "plain" else abs(trace - right) > 0.1 * right, "the behaviour changed"
PYTHON
