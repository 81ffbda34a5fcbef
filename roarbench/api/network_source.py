"""Read or write the Python source that rebuilds a caller's network with new random weights, and try these weights."""

import base64
import io
import pickle
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from roarbench.api.initial_values import RESET, check_initial_values, find_reset
from roarbench.api.inputs import move_to_model, to_array
from roarbench.api.source_of_definitions import is_from_installed_package
from roarbench.api.submission_source import WrittenStatements, read_signature
from roarbench.api.user_networks import (
    borrow_networks,
    check_network,
    convert_to_float32,
    empty_tensors_of_forward,
    list_plain_tensors,
    refuse_other_objects,
    take_few_images,
)
from roarbench.common.errors import CallerError
from roarbench.common.files import convert_read_errors
from roarbench.common.text import describe_type, fit_on_one_line, format_count
from roarbench.compute.external_networks import TWO_CLASSES, BuilderFailed, add_second_logit, extract_logits
from roarbench.compute.network_checks import compute_checked_logits, load_state_and_check_logits
from roarbench.compute.networks import build_network
from roarbench.compute.retraining_checks import check_training_start
from roarbench.estimators.compute_maps import use_exact_eager_mode
from roarbench.plan.suite_template import IMAGE_RECIPE

_FILE = "'FILE.py:FUNCTION', a self-contained file whose function of (classes, channels, size) builds it"
_REMEDY = f"pass network=, a function that builds it, such as network=lambda: MyNet(10), or {_FILE}"
_EXPECTED_BUILDER = (
    "expected FILE.py:FUNCTION, or a function that builds the network, such as network=lambda: MyNet(10)"
)
# names of stored networks contain the hash of these two texts, so a change would make stored rows unreachable
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
    for module in {modules}:
        reset = next((name for name in {reset!r} if hasattr(module, name)), "")
        if reset:
            getattr(module, reset)()
            continue
        for parameter in module.parameters(recurse=False):
            nn.init.normal_(parameter, std=0.02)
    return model
'''
_BUILT = '''\
"""A network whose builder was handed in from Python."""

{imports}

{definitions}


def {function}(classes, channels, size):
    """Return the network with the weights that its builder draws."""
    return {call}
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


class NetworkWithSource(NamedTuple):
    """A network that the caller passed, with the source that rebuilds it."""

    model: nn.Module  # eval mode; returns one logit per class
    source: str  # Python file that builds the network with random weights
    function: str  # function or class of that file
    classes: int
    notes: tuple[str, ...] = ()  # lines about the initial values of networks that are built from `source` and trained

    def build_untrained(self, images: Tensor, seed: int = 0) -> nn.Module:
        """Build the network from `source`, for images of the given shape."""
        (_, channels, size, _), generator = images.shape, torch.Generator().manual_seed(seed)
        return build_network(f"network.{self.function}@", self.classes, channels, size, generator, self.source)

    def accepts_smaller_images(self, images: Tensor) -> bool:
        """Return whether the network accepts the smaller images of a recipe's first epochs."""
        model = self.build_untrained(images).to(move_to_model(self.model, images).device).train()
        sides = (round(share * images.shape[2]) for share in IMAGE_RECIPE.sides)
        with suppress(Exception), torch.no_grad(), use_exact_eager_mode():  # the caller's network may raise anything
            smaller = (move_to_model(model, torch.zeros(2, images.shape[1], side, side)) for side in sides)
            return all(tuple(extract_logits(model(each)).shape) == (2, self.classes) for each in smaller)
        return False


def make_network_with_source(
    model: nn.Module,
    images: Tensor,
    builder: str | Callable[..., Any],
    say: Callable[[str], object],
    retrained: bool = True,
) -> NetworkWithSource:
    """Read or write a network's source; CallerError if the network cannot be explained, or rebuilt from the source.

    `builder` is FILE.py:FUNCTION, a function, or empty; `say` is called with each warning. `retrained` says whether a
    protocol trains networks that are built anew; the checks of their initial values run only then.
    """
    refuse_other_objects(model, "the network")
    model = convert_to_float32(model, "the network", lambda line: say(f"warning: {line}"))
    few, notes = take_few_images(model, images), list[str]()
    if callable(builder):
        source, function = _write_builder(builder), "network"
    elif builder:
        file, _, function = builder.rpartition(":")
        with convert_read_errors(file, f"network is '{builder}', expected FILE.py:FUNCTION", CallerError):
            source = Path(file).read_text("utf-8")
    else:
        with empty_tensors_of_forward(model, few):
            source, notes = write_network_structure(model, few if retrained else None)
        function = "network"
    with borrow_networks([model]):
        wrapped = add_second_logit(model, few)
        found = check_network(wrapped, few, images if wrapped is not model else None)
        if wrapped is not model:
            # a function with two logits, by the weights of `add_second_logit`; of z without an axis, one is added
            steps = "" if len(list(wrapped.children())) == 2 else ", nn.Flatten(0), nn.Unflatten(0, (-1, 1))"
            source += _BINARY.format(function=function, weights=[list(row) for row in TWO_CLASSES], column=steps)
            function += "_of_two_classes"
        network = NetworkWithSource(wrapped, source, function, compute_checked_logits(wrapped, few).shape[1])
        try:
            untrained = network.build_untrained(few).eval().to(few.device)
        except BuilderFailed as error:
            if builder:
                raise
            raise _make_structure_error(fit_on_one_line(str(error).partition(";")[0], 200)) from None
        try:
            load_state_and_check_logits(wrapped, untrained, few)
        except RuntimeError as error:  # weights do not fit
            made_by = "the function network=" if callable(builder) else builder or "its file"
            seen = f"{made_by} builds a different network ({fit_on_one_line(str(error), 160)})"
            raise CallerError(f"{seen}; write one that builds the given network") from None
        if retrained:
            notes += check_training_start(partial(network.build_untrained, few), few.cpu(), "the network")
    for line in (*found, *notes):
        say(f"warning: {line}")
    return network._replace(notes=tuple(notes))


def _write_builder(builder: Callable[..., Any]) -> str:
    """Write a file whose function `network` calls a function of the caller's, with or without the images' shape."""
    if isinstance(builder, nn.Module):
        raise CallerError(f"network is {describe_type(builder)}, {_EXPECTED_BUILDER}")
    signature, required = read_signature(builder)
    if required not in (0, 3):
        seen = f"network has {required} arguments without a default {fit_on_one_line(str(signature), 80)}"
        raise CallerError(f"{seen}, expected none, or (classes, channels, size)")
    written = WrittenStatements()
    try:
        made = written.write_expression(builder, "make")
    except CallerError as error:
        seen = fit_on_one_line(str(error).partition(";")[0], 200)
        raise CallerError(f"the function network= cannot be written ({seen}); pass {_FILE}") from None
    if "network" in written.statements:
        raise CallerError("the function network= uses the name 'network' for something else; rename it")
    imports, definitions = written.split_imports_from_definitions()
    call = f"{made}(classes, channels, size)" if required else f"{made}()"
    texts = {"imports": "\n".join(sorted(imports)), "definitions": "\n\n\n".join(definitions)}
    return _BUILT.format(**texts, function="network", call=call)


def write_network_structure(model: nn.Module, images: Tensor | None = None) -> tuple[str, list[str]]:
    """Return a Python file whose function `network` builds the same structure, and lines about its initial values.

    With `images`, networks are trained that are built by this file: their weights are all trained, and CallerError is
    raised if layers do not set their own initial values. CallerError if there is no such file.
    """
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise _make_structure_error("programs of torch.jit have no source")
    for path, part in model.named_modules():
        if part._forward_pre_hooks and (found := {"weight_orig", "weight_g"} & part._parameters.keys()):
            seen = f"a hook computes a weight from '{f'{path}.{min(found)}'.lstrip('.')}' in each pass"
            remedy = "remove it (torch.nn.utils: prune.remove, remove_spectral_norm, remove_weight_norm)"
            raise _make_structure_error(seen, f"{remedy}, or {_REMEDY}")
    written = WrittenStatements()
    retrained = images is not None
    drawn = [module for module in model.modules() if find_reset(module)]
    # a module draws weights after its parts if some of these have weights, or draw them
    inner = [part for module in drawn for part in module.modules() if part is not module]
    has_parts = any(find_reset(part) or [*part.parameters(recurse=False)] for part in inner)
    # callables by path, such as `0.forward`, that were assigned to a module in place of its class's method
    replaced = {
        f"{path}.{name}".lstrip("."): value
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if callable(value)
        and callable(method := getattr(type(module), name, None))
        and getattr(value, "__func__", value) is not method
    }
    own_layers_last = retrained and has_parts
    try:
        for path, *_, tensors in list_plain_tensors(model):
            if not all(tensor.is_leaf for tensor in tensors):  # it cannot be copied
                raise CallerError(f"its attribute '{path}' is a tensor computed with a gradient")
        if any(isinstance(method, MethodType) for method in replaced.values()):  # pickle would write its name alone
            raise CallerError("it is a bound method that its class does not define")
        structure = _pickle_structure_as_base64(model, written, all_trained=retrained)
    except (CallerError, pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
        seen, remedy = fit_on_one_line(str(error).partition(";")[0], 200), _REMEDY
        if replaced:
            seen = f"{', '.join(replaced)} was replaced by assignment, and {seen}"
            remedy = f"define the method in a subclass, or {_REMEDY}"
        raise _make_structure_error(seen, remedy) from None
    notes = []
    if images is not None:
        weights = list(model.parameters())
        if frozen := [weight for weight in weights if not weight.requires_grad]:
            seen = f"{len(frozen)} of {format_count(len(weights), 'parameter')} of the network are frozen"
            remedy = "retrained networks start from random weights, so all of their parameters are trained"
            notes.append(f"{seen}; {remedy}")
        notes += check_initial_values(model, images, own_layers_last)
    imports, definitions = written.split_imports_from_definitions()
    parts = {"imports": "\n".join(sorted(imports)), "classes": "\n\n\n".join(definitions), "structure": structure}
    modules = "reversed(list(model.modules()))" if own_layers_last else "model.modules()"
    return _NETWORK.format(**parts, modules=modules, reset=RESET), notes


def _make_structure_error(seen: str, remedy: str = _REMEDY) -> CallerError:
    return CallerError(f"the network's structure cannot be written ({seen}); {remedy}")


class _Pickler(pickle._Pickler):
    """Pickle a structure deterministically: parameters become number and shape; strings and tuples are not memoized.

    Classes and functions from outside installed packages are written as source and referred to by name.
    """

    numbers: dict[int, int]
    written: WrittenStatements
    all_trained: bool  # whether frozen parameters are trained, too

    def persistent_id(self, part: Any) -> tuple[int, Any] | str | None:
        if isinstance(part, type | FunctionType) and not is_from_installed_package(part):
            return self.written.write_expression(part, f"own_{len(self.written.statements)}")
        if not isinstance(part, Tensor):
            return None
        trained = isinstance(part, nn.Parameter)
        if trained and part.dtype is not torch.float32:  # the file makes float32 numbers
            raise CallerError(f"a weight of shape {tuple(part.shape)} is {part.dtype}".replace("torch.", ""))
        content = (
            (tuple(part.shape), part.requires_grad or self.all_trained)
            if trained
            else to_array(part, "a tensor of the network")
        )
        return self.numbers.setdefault(id(part), len(self.numbers)), content

    def reducer_override(self, part: Any) -> Any:
        """Sort sets, because the order of strings in a set, such as names of buffers, differs between processes."""
        if type(part) in (set, frozenset) and len(part) > 1 and {*map(type, part)} != {int}:
            return type(part), (sorted(part, key=repr),)
        return NotImplemented

    def memoize(self, part: Any) -> None:
        if not isinstance(part, str | tuple):
            super().memoize(part)  # type: ignore[misc]


def _pickle_structure_as_base64(model: nn.Module, written: WrittenStatements, all_trained: bool) -> str:
    copy, pickled = deepcopy(model).cpu(), io.BytesIO()
    for module in copy.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase):
            module.reset_running_stats()  # running statistics come from training, not from the structure
    pickler = _Pickler(pickled)
    pickler.numbers, pickler.written, pickler.all_trained = {}, written, all_trained
    pickler.dump(copy)
    return base64.b64encode(pickled.getvalue()).decode()
