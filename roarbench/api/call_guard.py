"""Call a caller's functions so that the networks, torch and NumPy are afterwards as before.

Functions and methods of torch, NumPy and the networks' classes that were replaced are found, and put back.
"""

import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import unwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from roarbench.api.inputs import move_to_model
from roarbench.api.torch_settings import read_settings, restore_settings
from roarbench.common.errors import CallerError
from roarbench.common.text import list_some
from roarbench.submissions.installed_packages import is_installed_file
from roarbench.submissions.network_changes import (
    ADVICE,
    NetworkState,
    compute_logits_and_gradients,
    have_same_outputs,
)

_PATCH_REMEDY = "put the originals back at the end, or compute these maps in a process of their own and pass the arrays"
_SETTING_REMEDY = "change settings in a `with` block, such as `with torch.no_grad():`, or restore them at the end"
_TORCH = str(Path(torch.__file__).parent)
_OWN = f"{Path(__file__).parents[1]}/"  # a layer of `roarbench.compute.networks` names torch's module
_COMPILER = (f"{_TORCH}/_dynamo/", f"{_TORCH}/_compile.py")  # torch wraps functions itself when it first compiles
_MODULES = (
    *("torch", "torch._C._nn", "torch._tensor", "torch._VF", "torch.functional", "torch.overrides", "torch.special"),
    *("torch.autograd", "torch.autograd.function", "torch.autograd.graph", "torch.fft", "torch.linalg"),
    *("torch.utils.checkpoint", "torch.nn"),
)
_UNUSED = "torch.compile"  # computes no row, and Lightning wraps it when it is imported
_CLASSES = (torch.Tensor, torch._C.TensorBase, torch.autograd.Function)
_FUNCTIONS = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, partial)
_DESCRIPTORS = (staticmethod, classmethod, property)


class CallGuard:
    """The state of networks and of torch, to which both return after each call of a function."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self._networks = networks
        self._states = list(map(NetworkState.read, networks))
        self._functions = read_functions(networks)
        self._settings = read_settings()
        self._called = set[tuple[str, int]]()
        self.undone = set[str]()  # functions whose first call for a network left harmless changes, such as hooks

    @contextmanager
    def protect(self, name: str, number: int, images: Tensor) -> Iterator[None]:
        """Undo what the function `name` changes while it explains images (n, c, h, w) by network `number`.

        After the first call for a network, the other networks, and logits and gradients of these images, are compared,
        too. Changes of the network after which logits and gradients of these images are the same are undone without an
        error: libraries add hooks that only record, such as those of transformers for `output_attentions`, or store
        their parameters anew.

        Raises:
            CallerError: The function changed what the networks or torch compute after its end.
        """
        network, first = self._networks[number], (name, number) not in self._called
        self._called.add((name, number))
        outputs = compute_logits_and_gradients(network, images) if first else (None, None)
        for state in self._states if first else ():
            state.restore()  # this pass, and those of other estimators, may have changed a buffer, such as a counter
        state = self._states[number]
        is_modified = False
        try:
            try:
                yield
                if first and not state.has_same_outputs():
                    self.undone.add(name)
            finally:
                settings = restore_settings(self._settings)
                patches = restore_functions(self._functions)
            if patches:
                seen = f"{name} replaced {list_some(patches)} for all rows and networks"
                raise CallerError(f"{seen}; {_PATCH_REMEDY}")
            if settings:
                raise CallerError(f"{name} changed {list_some(settings)} of torch; {_SETTING_REMEDY}")
            is_modified = not state.has_same_outputs() and state.undo_changes(network, images)
        finally:
            state.restore()
        if is_modified:
            raise CallerError(f"{name} modified the model {ADVICE}")
        for other, state in zip(self._networks, self._states, strict=True) if first else ():
            if not state.has_same_outputs() and state.undo_changes(other, move_to_model(other, images)):
                raise CallerError(f"{name} modified a network that it does not explain; use only the given model")
        if outputs[0] is not None and not have_same_outputs(outputs, compute_logits_and_gradients(network, images)):
            seen = f"after a call of {name}, the network has other logits or gradients for the same images"
            raise CallerError(f"{seen}; start Python anew, and compute these maps in a process of their own")


class _Namespace(NamedTuple):
    """A module, class or dict, with the functions that it holds by name."""

    title: str
    owner: Any
    functions: dict[Any, Any]
    names: frozenset[str] = frozenset()  # all names in a class

    def describe(self, name: Any) -> str:
        return f"{self.title}[{name!r}]" if isinstance(self.owner, dict) else f"{self.title}.{name}"


def read_functions(networks: Iterable[nn.Module] = ()) -> list[_Namespace]:
    """Read the functions of torch and NumPy, and of the classes and modules (files) in which the networks are defined.

    A copy takes milliseconds.
    """
    found = [*_read_torch(), *map(_read_namespace, (np, np.linalg, np.random))]
    kinds = {kind for network in networks for module in network.modules() for kind in type(module).__mro__}
    kinds = {kind for kind in kinds if kind.__module__.partition(".")[0] not in ("torch", "builtins")}
    classes, tables = dict.fromkeys(kinds), {}
    for module in filter(None, dict.fromkeys(sys.modules.get(kind.__module__) for kind in kinds)):
        package = module.__name__.partition(".")[0]
        for name, value in vars(module).copy().items():
            home = getattr(value if isinstance(value, type) else type(value), "__module__", None)
            if isinstance(value, type) and home == module.__name__:
                classes[value] = None
            elif type(value) is dict:
                tables[id(value)] = (f"{module.__name__}.{name}", value)
            elif isinstance(home, str) and home.partition(".")[0] == package and not isinstance(value, type):
                for held in (vars(type(value)), getattr(value, "__dict__", {})):
                    parts = {f"{module.__name__}.{name}.{key}": part for key, part in dict(held).items()}
                    tables |= {id(part): (title, part) for title, part in parts.items() if type(part) is dict}
        found.append(_Namespace(module.__name__, module, _select_functions(vars(module))))
    found += map(_read_namespace, classes)
    named = [(title, table, _select_functions(table)) for title, table in tables.values() if not title.endswith("__")]
    return [*found, *(_Namespace(*each) for each in named if each[2])]


def restore_functions(before: Iterable[_Namespace]) -> list[str]:
    """Put back the functions that are no longer those of `before`, the result of `read_functions`; return their names.

    New functions count if they hide those of a class's parents.
    """
    replaced = []
    for namespace in before:
        owner = namespace.owner
        current = owner if isinstance(owner, dict) else vars(owner)
        names = [name for name, function in namespace.functions.items() if current.get(name) is not function]
        names = [name for name in names if not _find_file(current.get(name)).startswith(_COMPILER)]
        if isinstance(owner, type):
            parents = owner.__mro__[1:]
            new_names = sorted(current.keys() - namespace.names)
            names += [name for name in new_names if any(callable(vars(parent).get(name)) for parent in parents)]
        replaced += [(namespace, name) for name in names]
    for namespace, name in replaced:
        if isinstance(namespace.owner, dict):
            namespace.owner[name] = namespace.functions[name]
        elif name in namespace.functions:
            setattr(namespace.owner, name, namespace.functions[name])
        else:
            delattr(namespace.owner, name)
    return [namespace.describe(name) for namespace, name in replaced]


def list_foreign_functions(networks: Iterable[nn.Module] = ()) -> list[str]:
    """Return functions of torch, and `forward` of the networks' classes, that another package defines.

    `lxt.monkey_patch`, for example, replaces such functions for the whole process.
    """
    found = []
    for namespace in _read_torch():
        for name, function in namespace.functions.items():
            title = namespace.describe(name)
            if _is_foreign(function) and _is_name_of_torch(namespace.owner, name) and title != _UNUSED:
                found.append(title)
    kinds = {kind for network in networks for module in network.modules() for kind in type(module).__mro__}
    for kind in sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__)):
        forward: Any = vars(kind).get("forward")
        package = sys.modules.get(kind.__module__.partition(".")[0])
        file = getattr(package, "__file__", None) or ""
        folder = str(Path(file).parent)
        installed = file and is_installed_file(file)
        if installed and _is_foreign(forward) and not _find_file(unwrap(forward)).startswith(folder):
            found.append(f"{kind.__module__}.{kind.__qualname__}.forward")
    return list(dict.fromkeys(found))  # a layer of torch may be found in both ways


def _is_name_of_torch(owner: Any, name: str) -> bool:
    """Return whether torch itself has this function; functions that other packages add change nothing."""
    if hasattr(torch._C.TensorBase, name) or hasattr(torch._C._VariableFunctions, name) or hasattr(torch._C._nn, name):
        return True
    module = owner if isinstance(owner, types.ModuleType) else sys.modules[owner.__module__]
    file = Path(getattr(module, "__file__", None) or "missing")
    return file.suffix == ".py" and re.search(rf"\b{re.escape(name)}\b", file.read_text(encoding="utf-8")) is not None


def _read_torch() -> Iterator[_Namespace]:
    modules = [sys.modules[name] for name in _MODULES if name in sys.modules]
    modules += [module for name, module in sys.modules.copy().items() if name.startswith("torch.nn.") and module]
    classes = dict.fromkeys(_CLASSES)
    for namespace in map(_read_namespace, dict.fromkeys(modules)):
        yield namespace
        if namespace.title.startswith("torch.nn.modules"):
            values = namespace.functions.values()
            own = (value for value in values if isinstance(value, type) and issubclass(value, nn.Module))
            classes |= dict.fromkeys(own)
    yield from map(_read_namespace, classes)


def _read_namespace(owner: types.ModuleType | type) -> _Namespace:
    title = f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else owner.__name__
    values = vars(owner).copy()
    functions = {name: value for name, value in values.items() if callable(value) or isinstance(value, _DESCRIPTORS)}
    return _Namespace(title, owner, functions, frozenset(values if isinstance(owner, type) else ()))


def _select_functions(values: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: value for name, value in dict(values).items() if isinstance(value, _FUNCTIONS)}


def _find_file(function: Any) -> str:
    """Return the file in which a Python function is defined; empty for others."""
    if isinstance(function, staticmethod | classmethod):
        function = function.__func__
    if isinstance(function, property):
        function = function.fget
    if isinstance(function, partial):
        function = function.func
    return str(getattr(getattr(function, "__code__", None), "co_filename", ""))


def _is_foreign(function: Any) -> bool:
    """Return whether a function is defined neither by torch, by modules on which torch is built, nor by roarbench."""
    file = _find_file(function)
    if not file or file.startswith((_TORCH, _OWN, "<")) or Path(file).name == "typing_extensions.py":
        return False
    packages = {"site-packages", "dist-packages"} & {*Path(file).parts}  # may lie in the library's folder
    return bool(packages) or not file.startswith(str(Path(types.__file__).parent))
