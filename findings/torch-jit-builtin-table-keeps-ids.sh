#!/usr/bin/env bash
# Guess: a function that was registered as a builtin of TorchScript is forgotten with the function, as caches keyed by
#   objects (functools, weakref) do.
# Behaviour: the table has the number id(function) as key and holds no reference. After the function is gone, Python gives
#   the number to another object, and torch.jit.script compiles a call of that other function to the old builtin: a
#   function that adds 1 computes a ReLU.
# Why it matters: whoever wraps functions of torch for a time, as counters of operations do, changes later programs in
#   silence; the entry has to be removed by hand.
# Source: torch/jit/_builtins.py, `_register_builtin` and `_find_builtin`.
# Versions: torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$folder"
cat >program.py <<'PYTHON'
import types
import warnings

import torch

warnings.simplefilter("ignore")


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def copy(function):
    return types.FunctionType(function.__code__, globals(), "copied")


wrapper = copy(add_one)
number = id(wrapper)
torch.jit._builtins._register_builtin(wrapper, "aten::relu")
del wrapper
later = []
while not later or id(later[-1]) != number:  # until the number is in use again, at once in practice
    later.append(copy(add_one))
    assert len(later) < 1000
called = later[-1]


def use(x: torch.Tensor) -> torch.Tensor:
    return called(x)


x = torch.tensor([-3.0, 2.0])
print("Python:", use(x).tolist(), "TorchScript:", torch.jit.script(use)(x).tolist())
assert use(x).tolist() == [-2.0, 3.0]
assert torch.jit.script(use)(x).tolist() == [0.0, 2.0]
PYTHON
"$folder/venv/bin/python" program.py
