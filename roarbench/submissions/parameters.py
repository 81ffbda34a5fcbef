"""Find the parameters of a submission in its source, and replace their values, without running the file.

The value of a parameter replaces the default in the source text before the sandbox runs the file. Therefore, objects
that the file makes from the estimator's class during its import have the value, too. Nothing here imports torch.
"""

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from roarbench.estimators.ids import Parameter, Value

ENTRY_POINTS = ("estimate", "estimator", "explain_func")  # a submission defines exactly one of these names
_MAX_MAGNITUDE = 1e9  # maximum absolute value of a numeric parameter
_PARAMETER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_INTEGER = re.compile("[-+]?[0-9]{1,10}")
_FLOAT = re.compile(r"[-+]?[0-9.]{1,20}(e[-+]?[0-9]{1,3})?", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9._+-]{1,100}")


class ParameterAttribute(NamedTuple):
    """Class attribute of a submission's estimator that a user may set."""

    default: Value  # value in the file
    start: int  # first byte of the default in the file
    stop: int  # first byte after the default


def read_parameter_attributes(tree: ast.Module, text: str) -> dict[str, ParameterAttribute]:
    """Return the class attributes of the estimator whose values are literal numbers, strings or truth values.

    The result has the order of the file. It is empty if the file does not make its estimator from a class of its own.
    """
    estimator_class = _find_estimator_class(tree)
    line_starts = [0]
    for line in text.encode().splitlines(keepends=True):
        line_starts.append(line_starts[-1] + len(line))
    attributes = {}
    for name, node in list_assignments(estimator_class.body if estimator_class else ()):
        value = _read_literal_value(node)
        if value is not None and _PARAMETER_NAME.fullmatch(name):
            start, stop = line_starts[node.lineno - 1] + node.col_offset, line_starts[(node.end_lineno or 0) - 1]
            attributes[name] = ParameterAttribute(value, start, stop + (node.end_col_offset or 0))
    return attributes


def replace_defaults(text: str, attributes: Mapping[str, ParameterAttribute], values: Mapping[str, Value]) -> bytes:
    """Return the source with `values` instead of the parameters' defaults."""
    data = text.encode()
    for name in sorted(values, key=lambda name: attributes[name].start, reverse=True):
        attribute = attributes[name]
        data = data[: attribute.start] + repr(values[name]).encode() + data[attribute.stop :]
    return data


def _find_estimator_class(tree: ast.Module) -> ast.ClassDef | None:
    """Return the class of the file that is the estimator or makes the estimator; None if there is no such class."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    assigned = {name: node for name, node in list_assignments(tree.body) if name in ENTRY_POINTS}
    for name in ENTRY_POINTS:
        if name in assigned:
            return classes.get(_find_used_class_name(assigned[name]))
        if name in classes:
            return classes[name]
    return None


def _find_used_class_name(node: ast.expr) -> str:
    """Return `Mine` for `Mine`, `Mine(…)`, `Mine(…).explain` and `lambda model: Mine(model)`."""
    while isinstance(node, ast.Lambda | ast.Call | ast.Attribute):
        node = node.body if isinstance(node, ast.Lambda) else node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def list_assignments(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yield name and value of each assignment to a single name, in order."""
    for statement in body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name):
            yield target.id, value


def _read_literal_value(node: ast.expr) -> Value | None:
    """Return the value of a literal number, string or truth value; None for other expressions."""
    signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd)
    if not isinstance(node.operand if isinstance(node, ast.UnaryOp) and signed else node, ast.Constant):
        return None
    try:
        value = ast.literal_eval(node)
    except ValueError:  # for example -"a"
        return None
    return value if type(value) in (bool, int, float, str) else None


def make_parameter(default: Value) -> Parameter:
    """Return the parameter with this default; its values have the default's type."""
    about = f"the file sets it to {default!r}"
    if isinstance(default, bool):
        return Parameter(about, "True or False", {"true": True, "false": False}.get)
    if isinstance(default, str):
        expected = "1 to 100 letters, digits and . _ + -"
        return Parameter(about, expected, lambda text: text if _WORD.fullmatch(text) else None)
    kind = "whole number" if isinstance(default, int) else "number"
    expected = f"a {kind} from -{_MAX_MAGNITUDE:g} to {_MAX_MAGNITUDE:g}"
    return Parameter(about, expected, lambda text: _parse_number(text, default))


def _parse_number(text: str, default: int | float) -> int | float | None:
    pattern = _INTEGER if isinstance(default, int) else _FLOAT
    try:
        value = type(default)(text) if pattern.fullmatch(text) else math.nan
    except ValueError:  # for example "1.2.3"
        return None
    if not abs(value) <= _MAX_MAGNITUDE:
        return None
    # floats are rounded to the precision of names, unless they are the default; + 0.0 turns -0 into 0
    return value if isinstance(value, int) or value == default else float(f"{value:g}") + 0.0
