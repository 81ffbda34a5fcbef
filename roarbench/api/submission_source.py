"""Write a Python function or class as a self-contained submission file, without importing torch.

A row is identified by the hash of its file, so changing the function, or a value that it uses, makes a new row.

The file imports objects of installed packages, contains copies of objects from notebooks, scripts and your own
modules, and has simple values as literals, also of class attributes that were changed after the class was defined. Any
other object raises CallerError, as do replaced properties, class methods and static methods. Files and environment
variables that the function reads are not in the file.
"""

import ast
import collections
import functools
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum, Flag
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from roarbench.api.source_of_definitions import (
    COMPUTED,
    FUNCTION,
    METHOD,
    is_from_installed_package,
    list_own_methods,
    read_class_attributes,
    read_source_and_used_objects,
)
from roarbench.common.errors import CallerError
from roarbench.common.text import fit_on_one_line
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.submissions.submission_file import ENTRY_POINTS, Submission, parse_submission

_MOST_DESCRIPTION_LETTERS = 300
_PLAIN_FUNCTION = '''\
class estimator:
    """Called as captum's are; the function gets plain tensors, and may return an array."""

    def __init__(self, model):
        self.model = model

    def attribute(self, inputs, target):
        return torch.as_tensor({call}(self.model, inputs.detach(), target), dtype=torch.float32, device=inputs.device)
'''
_ENTRY_POINTS = {  # by number of required arguments
    1: "estimator = {call}\n",  # captum's form, with the model
    3: _PLAIN_FUNCTION,
    4: "estimate = {call}\n",  # a submission's form, with a generator
}
_OUTSIDE_FILE = re.compile(
    rb"\b(environ|getenv|argv)\b|(?<![\w.])__(name|file|spec|package)__|\b__(defaults|kwdefaults|code|globals)__"
)
_ADVICE = "create it inside your function, or pass precomputed maps"


def warn_of_values_outside_file(submission: Submission) -> None:
    """Warn if the code of a function reads environment variables, `sys.argv`, or names of its module or functions."""
    from roarbench.api.inputs import warn_caller  # imports torch

    found = dict.fromkeys(match[0].decode() for match in _OUTSIDE_FILE.finditer(submission.source))
    if found:
        seen = f"{submission.name} reads {', '.join(found)}, with other values or none where its file runs"
        warn_caller(f"{seen}; pass values as defaults")


def make_submission(name: str, function: Callable[..., Any]) -> Submission:
    """Make a submission from a function or class; CallerError if the source cannot be written or called."""
    name = make_submission_name(name)
    written = WrittenStatements()
    call = written.write_expression(function, "explained_by")
    # of other objects, such as a partial, `getdoc` returns Python's description of their type, which versions change
    described = isinstance(function, (*FUNCTION, type, MethodType))
    documentation = (inspect.getdoc(function) or "") if described else ""
    summary = fit_on_one_line(documentation.partition("\n\n")[0]) or f"{call}, called from Python"
    head = f"NAME = {json.dumps(name)}\nDESCRIPTION = {json.dumps(summary[:_MOST_DESCRIPTION_LETTERS])}\n"
    imports, definitions = written.split_imports_from_definitions()
    imports = sorted({"import torch", *imports}, key=lambda text: (text.startswith("from "), text))
    entry = choose_entry_point_code(name, function)
    for key in {"NAME", "DESCRIPTION", "torch", *ENTRY_POINTS} & written.statements.keys():
        if written.statements[key] != "import torch" and (key != call or entry == _PLAIN_FUNCTION):
            raise CallerError(f"the code calls an object '{key}', a name that the file of a row needs; rename it")
    parts = ["\n".join(imports), head, *definitions, entry.format(call=call)]
    return parse_submission("\n\n".join(parts).encode())


def make_submission_name(name: str) -> str:
    """Convert a Python name to the nearest name of a submission, with `own-` in front if the name is taken."""
    cleaned = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:36]
    if not cleaned:
        raise CallerError(f"'{name}' cannot be the name of a row; write letters and digits")
    return f"own-{cleaned}" if cleaned in ESTIMATORS else cleaned


def choose_entry_point_code(name: str, function: Callable[..., Any]) -> str:
    """Return the statement of a row's file that defines its entry point, with `{call}` for the function.

    CallerError if a run cannot call the function.
    """
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    if any(is_kind(function) for is_kind in kinds):
        raise CallerError(f"{name} returns no maps, because it contains `async` or `yield`; write a plain function")
    if isinstance(function, type) and hasattr(function, "attribute"):
        refuse_missing_arguments(name, function)
        return _ENTRY_POINTS[1]
    signature, required = read_signature(function)
    if is_quantus_signature(signature):
        return "explain_func = {call}\n"
    if required not in _ENTRY_POINTS:
        seen = f"{name}{signature} has {required} arguments without a default"
        raise CallerError(f"{seen}; expected (model, inputs, targets), or a class of captum")
    return _ENTRY_POINTS[required]


def read_signature(function: Callable[..., Any]) -> tuple[inspect.Signature, int]:
    """Return a callable's signature (empty if unknown) and the number of its positional arguments without a default."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.Signature(), 0
    parameters = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return signature, sum(parameter.default is parameter.empty for parameter in parameters)


def refuse_missing_arguments(name: str, attribution: Any) -> None:
    """Raise CallerError if `attribute` of a captum class or object needs other arguments than inputs and target."""
    signature, _ = read_signature(attribution.attribute)
    arguments = (attribution, None) if isinstance(attribution, type) else (None,)
    try:
        signature.bind(*arguments, target=None)
    except TypeError as error:
        if not str(error).startswith("missing"):
            return
        kind = attribution.__name__ if isinstance(attribution, type) else type(attribution).__name__
        seen = f"{name}: {kind}.attribute(inputs, target) is {error}"
        raise CallerError(f"{seen}; pass a function of (model, inputs, targets) that calls it") from None


def is_quantus_signature(signature: inspect.Signature) -> bool:
    """Return whether a function accepts Quantus' call with the keywords `model`, `inputs`, `targets` and others."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    only_variable = kinds <= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    with suppress(TypeError):
        signature.bind(model=None, inputs=None, targets=None)
        return inspect.Parameter.VAR_KEYWORD in kinds and ("inputs" in signature.parameters or only_variable)
    return False


class WrittenStatements:
    """The statements of a file, by the name that each defines; dependencies come first."""

    def __init__(self) -> None:
        self.statements: dict[str, str] = {}
        self._objects: dict[str, object] = {}

    def split_imports_from_definitions(self) -> tuple[list[str], list[str]]:
        """Return the import statements, and all other statements in their order."""
        imports = [text for text in self.statements.values() if text.startswith(("import ", "from "))]
        return imports, [text for text in self.statements.values() if text not in imports]

    def write_expression(self, function: object, fallback_name: str) -> str:
        """Write the statements that define a function, class or partial, and return an expression that evaluates to it.

        `fallback_name` is used if the object has no name. CallerError if the object, or something that it uses, cannot
        be written to a file.
        """
        if isinstance(function, functools.partial):
            values = [("", value) for value in function.args]
            values += [(f"{key}=", value) for key, value in function.keywords.items()]
            label = f"{fallback_name}_part"
            texts = [(key, repr(one) if _is_literal(one) else self._write_value(one, label)) for key, one in values]
            arguments = [f"{key}{text}" for key, text in texts]
            self._write_definition("functools", functools)
            return f"functools.partial({', '.join([self.write_expression(function.func, fallback_name), *arguments])})"
        name = getattr(function, "__name__", "")
        name = name if name.isidentifier() else fallback_name
        self._write_definition(name, function)
        return name

    def _write_definition(self, name: str, value: Any) -> None:
        if name in self._objects:
            if self._objects[name] is not value:
                raise CallerError(f"two different objects are called '{name}'; rename one of them")
            return
        self._objects[name] = value
        statement = _write_import_if_installed(name, value)
        if not statement and _is_plain_named_tuple_class(value):
            self._write_definition("collections", collections)
            defaults = [self._write_value(default, name) for default in value._field_defaults.values()]
            fields = f"{value.__name__!r}, {list(value._fields)}, defaults=[{', '.join(defaults)}]"
            statement = f"{name} = collections.namedtuple({fields})"
        elif not statement and isinstance(value, (*FUNCTION, type)) and value.__name__ not in (name, "<lambda>"):
            statement = f"{name} = {self.write_expression(value, name)}"  # from `import … as`
        elif not statement and isinstance(value, (*FUNCTION, type)):
            statement, dependencies = read_source_and_used_objects(name, value, self._write_value)
            for other, dependency in dependencies.items():
                self._write_definition(other, dependency)
            if isinstance(value, type) and not issubclass(value, Enum):
                statement += self._write_changed_attributes(value, statement, dependencies)
            elif isinstance(value, FunctionType):
                if hasattr(value, "registry") and hasattr(value, "dispatch"):
                    seen = f"'{name}' is a functools.singledispatch, which cannot be written to a file"
                    raise CallerError(f"{seen}; use isinstance")
                # attributes that are literals, such as `mine.samples = 8`
                lines = [f"{name}.{key} = {held!r}" for key, held in vars(value).items() if _is_literal(held)]
                statement += "\n".join(["\n\n", *lines]) if lines else ""
        self.statements[name] = statement or f"{name} = {self._write_value(value, name)}"

    def _write_changed_attributes(self, value: type, source: str, names: Mapping[str, object]) -> str:
        """Return assignments of the class attributes, also methods, whose values are not those of the class's source.

        An attribute that the source computes by other expressions than literals and names is always assigned, if its
        value can be written. Decorated methods are not assigned, nor are properties and other descriptors.
        """
        lines, in_source = "", read_class_attributes(value, source, names)
        for attribute, current in vars(value).items():
            given = in_source.get(attribute, COMPUTED)
            label = f"{value.__name__}.{attribute}"
            inner = getattr(current, "__func__", getattr(current, "fget", None))  # of static methods, properties …
            if isinstance(inner, FunctionType):
                # neither of the class's body, nor made by a decorator, nor used there by name
                in_body = inner.__qualname__.startswith(f"{value.__qualname__}.") or "<locals>" in inner.__qualname__
                if not in_body and all(inner is not named for named in names.values()):
                    raise CallerError(f"'{label}' was replaced after its class was defined; define it in the class")
            if isinstance(current, FunctionType):
                # decorators return functions with a closure; `functools.total_ordering` adds installed functions
                in_body = current.__qualname__.startswith(f"{value.__qualname__}.")
                made = in_body or current.__closure__ or is_from_installed_package(current)
                is_kept = given is current or (given is COMPUTED and bool(made))
                if given is METHOD:
                    is_kept = current.__qualname__ == f"{value.__qualname__}.{attribute}"
            else:  # descriptors are properties, slots and others
                fixed = attribute.startswith("__") or (attribute.startswith("_field") and issubclass(value, tuple))
                is_kept = given is current or fixed or hasattr(type(current), "__get__")
            if is_kept:
                continue
            before = dict(self.statements), dict(self._objects)
            try:
                written = self._write_value(current, label)
            except CallerError:
                if given is not COMPUTED:
                    raise
                self.statements, self._objects = before
                continue
            with suppress(CallerError):
                if given is not COMPUTED and given is not METHOD and written == self._write_value(given, label):
                    continue
            lines += f"\n{label} = {written}"
        return f"\n\n{lines}" if lines else ""

    def _write_value(self, value: Any, name: str) -> str:
        """Return the source of a value: a literal, class, function, named tuple, enum member, dataclass, or nested."""
        is_imported = isinstance(value, BuiltinFunctionType) and _write_import_if_installed(name, value)
        if is_imported or isinstance(value, (*FUNCTION, type, functools.partial)):
            fallback = name.replace(".", "_")
            return self.write_expression(
                value, f"{fallback}_{len(self._objects)}" if name in self._objects else fallback
            )
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{float(value)}')"
        if f"{type(value).__module__}.{type(value).__name__}" in ("torch.dtype", "torch.device"):
            self._write_definition("torch", sys.modules["torch"])
            return str(value) if type(value).__name__ == "dtype" else f"torch.device('{value}')"
        if isinstance(value, Enum):
            key = f"({value.value})" if isinstance(value, Flag) else f"[{value.name!r}]"  # flags may be combined
            return f"{self.write_expression(type(value), name)}{key}"
        if is_dataclass(value) and not isinstance(value, type):
            parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            _refuse_changed_dataclass(value, parts, name)
        elif _is_plain_named_tuple_class(type(value)):
            parts = value._asdict()
        elif type(value) in (list, tuple) and value:
            listed = ", ".join(self._write_value(item, name) for item in value)
            return f"[{listed}]" if isinstance(value, list) else f"({listed},)"
        elif type(value) is dict:
            pairs = (f"{_check_literal(key, name)!r}: {self._write_value(item, name)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
        elif type(value) is set and {*map(type, value)} - {int}:  # the order of strings differs between processes
            _check_literal(value, name)
            return f"{{{', '.join(sorted(map(repr, value)))}}}"
        else:
            return repr(_check_literal(value, name))
        arguments = ", ".join(f"{key}={self._write_value(part, name)}" for key, part in parts.items())
        return f"{self.write_expression(type(value), name)}({arguments})"


def _refuse_changed_dataclass(value: Any, arguments: Mapping[str, object], name: str) -> None:
    """Raise CallerError if the arguments of a dataclass do not give its simple attributes again."""
    kind, again = type(value), None
    with suppress(Exception):  # an argument may be no attribute (InitVar)
        again = kind(**arguments)
    for key in [*getattr(value, "__dict__", ()), *(field.name for field in fields(value))]:
        item = getattr(value, key, COMPUTED)
        if again is None or (_is_literal(item) and getattr(again, key, COMPUTED) != item):
            seen = f"'{name}' is a {kind.__name__}, whose arguments do not give its {key}, {item!r}, again"
            raise CallerError(f"{seen}; set it by an argument of {kind.__name__}")


def _is_plain_named_tuple_class(value: Any) -> bool:
    """Return whether a class is a named tuple made by a call, so that it has no source."""
    derived = isinstance(value, type) and value.__bases__ == (tuple,) and hasattr(value, "_field_defaults")
    return derived and not list_own_methods(value)


def _write_import_if_installed(name: str, value: object) -> str:
    if isinstance(value, ModuleType):
        if not is_from_installed_package(value):
            raise CallerError(f"the code uses your module '{value.__name__}'; import the functions from it by name")
        return f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"
    qualified = getattr(value, "__name__" if isinstance(value, BuiltinFunctionType) else "__qualname__", "")
    for place in (getattr(value, "__module__", None), "torch.nn.functional"):  # has functions of a module in C++, too
        module = sys.modules.get(place or "")
        if module and is_from_installed_package(module) and getattr(module, qualified, None) is value:
            return f"from {module.__name__} import {qualified}" + (f" as {name}" if qualified != name else "")
    return ""


def _is_literal(value: object) -> bool:
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        read = ast.literal_eval(repr(value))
        return type(read) is type(value) and read == value  # a class derived from `str` has methods of its own
    return False


def _check_literal(value: object, name: str) -> object:
    if _is_literal(value):
        return value
    raise CallerError(f"'{name}' is a {type(value).__name__}, which cannot be written to a file; {_ADVICE}")
