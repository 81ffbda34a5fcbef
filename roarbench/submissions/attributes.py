"""Parameters of a submission: simple class attributes of its estimator, read and changed without running the file.

A value is put into the source where the file has the default, so that the sandbox runs the file as its author could
have written it: whatever is made of the class while the file is imported has the value, too.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from roarbench.estimators.parameters import Parameter, Value, read_values

NAMES = ("estimate", "estimator", "explain_func")  # of which a submission defines one
_LARGEST = 1e9  # of a number without its sign
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_NUMBER = re.compile(r"[-+]?[0-9.]{1,20}(e[-+]?[0-9]{1,3})?", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9._+-]{1,100}")


class Attribute(NamedTuple):
    """A class attribute that is a parameter."""

    default: Value  # what the file says
    start: int  # of the default, its first byte in the file
    stop: int  # the first byte after it


def read_class_attributes(tree: ast.Module, text: str) -> dict[str, Attribute]:
    """Return the parameters of a submission, in the order of the file.

    They are the attributes of the class that the file's estimator is, or is made of, whose value is a number, a text,
    True or False; none where the estimator is something else than a class of the file.
    """
    owner = _estimator_class(tree)
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = {}
    for name, node in _find_assigned(owner.body if owner else ()):
        value = _simple(node)
        if value is not None and _NAME.fullmatch(name):
            start, stop = lines[node.lineno - 1] + node.col_offset, lines[(node.end_lineno or 0) - 1]
            found[name] = Attribute(value, start, stop + (node.end_col_offset or 0))
    return found


def parse_parameters(owner: str, attributes: Mapping[str, Attribute], listed: str) -> dict[str, Value]:
    """Return the values in a list `samples=50,noise=0.1` that are not the default, in the order of the file.

    Raises:
        CallerError: It does not have these parameters, or not with these values.
    """
    defaults = {name: attribute.default for name, attribute in attributes.items()}
    table = {name: _parameter(default) for name, default in defaults.items()}
    return read_values(owner, defaults, listed, f"{owner}({listed})", table)


def write_values(text: str, attributes: Mapping[str, Attribute], values: Mapping[str, Value]) -> bytes:
    """Return a file with values where it has the defaults."""
    data = text.encode()
    for name in sorted(values, key=lambda name: attributes[name].start, reverse=True):
        place = attributes[name]
        data = data[: place.start] + repr(values[name]).encode() + data[place.stop :]
    return data


def _estimator_class(tree: ast.Module) -> ast.ClassDef | None:
    """Return the class of the file that its estimator is, or is made of."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    made = {name: node for name, node in _find_assigned(tree.body) if name in NAMES}
    for name in NAMES:
        if name in made:
            return classes.get(_find_called_name(made[name]))
        if name in classes:
            return classes[name]
    return None


def _find_called_name(node: ast.expr) -> str:
    """Return the name of `Mine` in `Mine`, `Mine(…)`, `Mine(…).explain` and `lambda model: Mine(model)`."""
    while isinstance(node, ast.Lambda | ast.Call | ast.Attribute):
        node = node.body if isinstance(node, ast.Lambda) else node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _find_assigned(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Return the names that single assignments give something to, in their order."""
    for statement in body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name):
            yield target.id, value


def _simple(node: ast.expr) -> Value | None:
    """Return the number, text or truth value that is written out here; None for anything else."""
    signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd)
    if not isinstance(node.operand if isinstance(node, ast.UnaryOp) and signed else node, ast.Constant):
        return None
    try:
        value = ast.literal_eval(node)
    except ValueError:  # such as -"a"
        return None
    return value if type(value) in (bool, int, float, str) else None


def _parameter(default: Value) -> Parameter:
    """Return what may stand for a default, which says the kind."""
    about = f"the file has {default!r}"
    match default:
        case bool():
            return Parameter(about, "True or False", {"true": True, "false": False}.get)
        case int():
            return Parameter(about, f"a whole number from {-_LARGEST:.0f} to {_LARGEST:.0f}", _whole)
        case float():
            return Parameter(about, f"a number from {-_LARGEST:g} to {_LARGEST:g}", lambda text: _number(text, default))
    return Parameter(
        about, "1 to 100 letters, digits and . _ + -", lambda text: text if _WORD.fullmatch(text) else None
    )


def _whole(text: str) -> int | None:
    value = int(text) if re.fullmatch("[-+]?[0-9]{1,10}", text) else None
    return value if value is not None and abs(value) <= _LARGEST else None


def _number(text: str, default: float) -> float | None:
    try:
        value = float(text) if _NUMBER.fullmatch(text) else _LARGEST * 2
    except ValueError:
        return None
    if value == default or not abs(value) <= _LARGEST:
        return default if value == default else None
    return float(f"{value:g}") + 0.0  # as exact as names are, and -0 is 0
