"""Write a Python file that rebuilds a network's structure with new random weights."""

import base64
import io
import pickle
from copy import deepcopy
from types import FunctionType
from typing import Any

import torch
from torch import nn

from roarbench.api.inputs import to_array
from roarbench.api.submission_source import WrittenStatements, is_from_installed_package
from roarbench.common.errors import CallerError
from roarbench.common.text import fit_on_one_line
from roarbench.compute.external_networks import TWO_CLASSES

_RESET = ("reset_parameters", "_reset_parameters")
_REMEDY = "pass network='FILE.py:FUNCTION', a self-contained file whose function of (classes, channels, size) builds it"
_NETWORK = '''\
"""A network that was handed in from Python: its structure, with weights drawn anew."""

import base64
import io
import pickle

import torch
from torch import nn
{imports}

{classes}

STRUCTURE = {structure!r}


class Reader(pickle.Unpickler):
    """Reads a structure: what is not of an installed package is of this file, parameters are empty."""

    def __init__(self, file):
        super().__init__(file)
        self.tensors = {{}}

    def persistent_load(self, about):
        if isinstance(about, str):
            return globals()[about]
        number, held = about
        if number not in self.tensors:
            trained = isinstance(held, tuple)
            self.tensors[number] = nn.Parameter(torch.empty(held[0]), held[1]) if trained else torch.tensor(held)
        return self.tensors[number]


def network(classes, channels, size):
    """Return the network with random weights: each layer's own, else normal with standard deviation 0.02."""
    model = Reader(io.BytesIO(base64.b64decode(STRUCTURE))).load()
    for module in model.modules():
        reset = next((name for name in {reset!r} if hasattr(module, name)), "")
        if reset:
            getattr(module, reset)()
            continue
        for parameter in module.parameters(recurse=False):
            nn.init.normal_(parameter, std=0.02)
    return model
'''
_BINARY = """

import torch
from torch import nn


def {function}_of_two_classes(classes, channels, size):
    # its one logit z becomes the logits -z / 2 and z / 2
    head = nn.Linear(1, 2, bias=False)
    head.weight = nn.Parameter(torch.tensor({weights!r}), requires_grad=False)
    return nn.Sequential({function}(classes, channels, size){column}, head)
"""


def write_network_structure(model: nn.Module) -> str:
    """Return a Python file whose function `network` builds the same structure; CallerError if it cannot be written."""
    written = WrittenStatements()
    try:
        structure = _write_pickled_structure(model, written)
    except (CallerError, pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
        seen = fit_on_one_line(str(error).partition(";")[0], 200)
        raise CallerError(f"the network's structure cannot be written ({seen}); {_REMEDY}") from None
    imports, definitions = written.split_imports()
    classes = "\n\n\n".join(definitions)
    return _NETWORK.format(imports="\n".join(sorted(imports)), classes=classes, structure=structure, reset=_RESET)


def add_two_class_function(source: str, function: str, logit_has_axis: bool) -> tuple[str, str]:
    """Add to a network's file a function that turns its single logit into two; return the file and the function's name.

    The function has the weights of `external_networks.add_second_logit`.
    """
    steps = "" if logit_has_axis else ", nn.Flatten(0), nn.Unflatten(0, (-1, 1))"
    added = _BINARY.format(function=function, weights=[list(row) for row in TWO_CLASSES], column=steps)
    return source + added, f"{function}_of_two_classes"


class _Pickler(pickle._Pickler):
    """Pickle a structure deterministically: parameters become number and shape; strings and tuples are not memoized.

    Classes and functions outside of installed packages are written as source and referred to by name.
    """

    numbers: dict[int, int]
    written: WrittenStatements

    def persistent_id(self, given: Any) -> tuple[int, Any] | str | None:
        if isinstance(given, type | FunctionType) and not is_from_installed_package(given):
            return self.written.write_expression(given, f"own_{len(self.written.statements)}")
        if not isinstance(given, torch.Tensor):
            return None
        trained = isinstance(given, nn.Parameter)
        content = (tuple(given.shape), given.requires_grad) if trained else to_array(given, "a tensor of the network")
        return self.numbers.setdefault(id(given), len(self.numbers)), content

    def memoize(self, given: Any) -> None:
        if not isinstance(given, str | tuple):
            super().memoize(given)  # type: ignore[misc]


def _write_pickled_structure(model: nn.Module, written: WrittenStatements) -> str:
    plain, out = deepcopy(model).cpu(), io.BytesIO()
    for module in plain.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase):
            module.reset_running_stats()  # running statistics come from training, not from the structure
    pickler = _Pickler(out)
    pickler.numbers, pickler.written = {}, written
    pickler.dump(plain)
    return base64.b64encode(out.getvalue()).decode()
