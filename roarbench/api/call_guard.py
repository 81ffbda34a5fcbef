"""Call a caller's functions so that the networks, torch and NumPy are afterwards as before.

Functions and methods of torch, NumPy and the networks' classes that were replaced are found, and put back.
"""

import re
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
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
from roarbench.submissions.network_changes import ADVICE, NetworkState, compute_logits_and_gradients

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
_MISSING = object()


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

        After the first call for a network, the other networks, and logits of these images, are compared, too. Changes
        of the network after which logits and gradients of these images are the same are undone without an error:
        libraries add hooks that only record, such as those of transformers for `output_attentions`, or store their
        parameters anew.

        Raises:
            CallerError: The function changed what the networks or torch compute after its end.
        """
        network, first = self._networks[number], (name, number) not in self._called
        self._called.add((name, number))
        for state in self._states if first else ():
            state.restore()  # passes of other estimators may have changed a buffer, such as a counter
        state = self._states[number]
        logits = compute_logits_and_gradients(network, images)[0] if first else None
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
        if first:
            self._refuse_other_changes(name, number, images, logits)

    def _refuse_other_changes(self, name: str, number: int, images: Tensor, logits: Tensor | None) -> None:
        for network, state in zip(self._networks, self._states, strict=True):
            if not state.has_same_outputs() and state.undo_changes(network, move_to_model(network, images)):
                raise CallerError(f"{name} modified a network that it does not explain; use only the given model")
        again, _ = compute_logits_and_gradients(self._networks[number], images)
        if logits is not None and (again is None or not torch.equal(logits, again)):
            seen = f"after a call of {name}, the network returns other logits for the same images"
            raise CallerError(f"{seen}; start Python anew, and compute these maps in a process of their own")


class _Namespace(NamedTuple):
    """A module, class or dict, with the functions that it holds by name."""

    title: str
    owner: Any
    functions: dict[Any, Any]
    names: frozenset[str] = frozenset()  # all names in a class

    def describe(self, name: Any) -> str:
        return f"{self.title}[{name!r}]" if isinstance(self.owner, dict) else f"{self.title}.{name}"

    def list_replaced(self) -> list[Any]:
        """Return names that no longer have their function, and new names that hide functions of a class's parents."""
        current = self.owner if isinstance(self.owner, dict) else vars(self.owner)
        found = []
        for name, function in self.functions.items():
            new = current.get(name, _MISSING)
            if new is not function and not _find_file(new).startswith(_COMPILER):
                found.append(name)
        if isinstance(self.owner, type):
            parents = self.owner.__mro__[1:]
            new_names = sorted(current.keys() - self.names)
            found += [name for name in new_names if any(callable(vars(parent).get(name)) for parent in parents)]
        return found

    def restore(self, name: Any) -> None:
        if isinstance(self.owner, dict):
            self.owner[name] = self.functions[name]
        elif name not in self.functions:
            delattr(self.owner, name)
        else:
            setattr(self.owner, name, self.functions[name])


def read_functions(networks: Iterable[nn.Module] = ()) -> list[_Namespace]:
    """Read the functions of torch and NumPy, and of the classes and modules (files) in which the networks are defined.

    A copy takes milliseconds.
    """
    return [*_read_torch(), *map(_read_module, (np, np.linalg, np.random)), *_read_packages_of(networks)]


def restore_functions(before: Iterable[_Namespace]) -> list[str]:
    """Put back the functions that are no longer those of `before`, the result of `read_functions`; return their names.

    New functions count if they hide others.
    """
    replaced = [(namespace, name) for namespace in before for name in namespace.list_replaced()]
    for namespace, name in replaced:
        namespace.restore(name)
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
    for namespace in map(_read_module, dict.fromkeys(modules)):
        yield namespace
        if namespace.title.startswith("torch.nn.modules"):
            values = namespace.functions.values()
            own = (value for value in values if isinstance(value, type) and issubclass(value, nn.Module))
            classes |= dict.fromkeys(own)
    yield from map(_read_class, classes)


def _read_module(module: types.ModuleType) -> _Namespace:
    functions = {name: value for name, value in vars(module).copy().items() if callable(value)}
    return _Namespace(module.__name__, module, functions)


def _read_class(kind: type) -> _Namespace:
    title = f"{kind.__module__}.{kind.__qualname__}"
    values = vars(kind).copy().items()
    functions = {name: value for name, value in values if isinstance(value, _DESCRIPTORS) or callable(value)}
    return _Namespace(title, kind, functions, frozenset(vars(kind)))


def _read_packages_of(networks: Iterable[nn.Module]) -> Iterator[_Namespace]:
    kinds = {kind for network in networks for module in network.modules() for kind in type(module).__mro__}
    kinds = {kind for kind in kinds if kind.__module__.partition(".")[0] not in ("torch", "builtins")}
    modules = dict.fromkeys(sys.modules.get(kind.__module__) for kind in kinds)
    classes, registries = dict.fromkeys(kinds), {}
    for module in modules:
        if module is None:
            continue
        package = module.__name__.partition(".")[0]
        functions = {}
        for name, value in vars(module).copy().items():
            if isinstance(value, _FUNCTIONS):
                functions[name] = value
            home = getattr(value if isinstance(value, type) else type(value), "__module__", None)
            if isinstance(value, type) and home == module.__name__:
                classes[value] = None
            elif type(value) is dict:
                registries[id(value)] = (f"{module.__name__}.{name}", value)
            elif isinstance(home, str) and home.partition(".")[0] == package and not isinstance(value, type):
                for held in (vars(type(value)), getattr(value, "__dict__", {})):
                    for key, table in dict(held).items():
                        if type(table) is dict:
                            registries[id(table)] = (f"{module.__name__}.{name}.{key}", table)
        yield _Namespace(module.__name__, module, functions)
    yield from map(_read_class, classes)
    for title, table in registries.values():
        functions = {name: value for name, value in table.copy().items() if isinstance(value, _FUNCTIONS)}
        if functions and not title.endswith("__"):
            yield _Namespace(title, table, functions)


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
