"""Functions and methods of torch, and of the networks' classes: find those that were replaced, and put them back."""

import re
import sys
import types
from collections.abc import Iterable, Iterator
from functools import partial
from inspect import unwrap
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import nn

from roarbench.submissions.installed_packages import is_installed_file

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


class _Namespace(NamedTuple):
    """A module, class or dict, with the functions that it holds by name."""

    title: str
    owner: Any
    functions: dict[Any, Any]
    names: frozenset[str] = frozenset()  # all names in a class

    def list_hiding(self) -> list[str]:
        """Return new names in a class that hide functions of its parent classes."""
        if not isinstance(self.owner, type):
            return []
        new = vars(self.owner).keys() - self.names
        parents = self.owner.__mro__[1:]
        return [name for name in sorted(new) if any(callable(vars(parent).get(name)) for parent in parents)]

    def restore(self, name: Any) -> None:
        if isinstance(self.owner, dict):
            self.owner[name] = self.functions[name]
        elif name not in self.functions:
            delattr(self.owner, name)
        else:
            setattr(self.owner, name, self.functions[name])


class Patch(NamedTuple):
    """A function that was replaced."""

    namespace: _Namespace
    name: Any

    def __str__(self) -> str:
        title = self.namespace.title
        return f"{title}[{self.name!r}]" if isinstance(self.namespace.owner, dict) else f"{title}.{self.name}"


class TorchFunctions(NamedTuple):
    """The functions of torch and of some networks at one time; a copy takes milliseconds."""

    namespaces: list[_Namespace]

    @classmethod
    def read(cls, networks: Iterable[nn.Module] = ()) -> Self:
        """Read the functions of torch, and of the classes and modules (files) in which the networks are defined."""
        return cls([*_read_torch(), *_read_packages_of(networks)])

    def list_replaced(self) -> list[Patch]:
        """Return functions that are no longer those of this record; new functions count if they hide others."""
        found = []
        for namespace in self.namespaces:
            current = namespace.owner if isinstance(namespace.owner, dict) else vars(namespace.owner)
            for name, function in namespace.functions.items():
                new = current.get(name, _MISSING)
                if new is not function and not _find_file(new).startswith(_COMPILER):
                    found.append(Patch(namespace, name))
            found += [Patch(namespace, name) for name in namespace.list_hiding()]
        return found

    def restore(self) -> list[Patch]:
        """Put back the functions that were replaced, and return them."""
        found = self.list_replaced()
        for patch in found:
            patch.namespace.restore(patch.name)
        return found


def list_foreign_functions(networks: Iterable[nn.Module] = ()) -> list[str]:
    """Return functions of torch, and `forward` of the networks' classes, that another package defines.

    `lxt.monkey_patch`, for example, replaces such functions for the whole process.
    """
    found = []
    for namespace in _read_torch():
        for name, function in namespace.functions.items():
            title = str(Patch(namespace, name))
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
    for module in dict.fromkeys(modules):
        functions = {name: value for name, value in vars(module).copy().items() if callable(value)}
        yield _Namespace(module.__name__, module, functions)
        if module.__name__.startswith("torch.nn.modules"):
            own = (value for value in functions.values() if isinstance(value, type) and issubclass(value, nn.Module))
            classes |= dict.fromkeys(own)
    yield from map(_read_class, classes)


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
