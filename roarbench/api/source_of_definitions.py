"""Find the source of functions and classes, and the objects and class attributes that it names, without running it."""

import ast
import builtins
import dis
import functools
import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from roarbench.common.errors import CallerError
from roarbench.submissions.installed_packages import is_installed_file
from roarbench.submissions.submission_file import parse_source, replace_nodes

_NAME_LOOKUPS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS")
# imports of these would change the names of rows that are stored
_LOADED_BY_TORCH = re.compile(
    r"torch\.(\w+|(autograd|backends)\..+|nn\.(functional|init|modules|utils)|utils\.(checkpoint|data))"
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTION = (FunctionType, functools._lru_cache_wrapper)  # maybe under functools.cache or lru_cache
COMPUTED = object()  # stands for a value that only running the source would show
METHOD = object()  # stands for the method that the source defines


def is_from_installed_package(definition: type | FunctionType | ModuleType) -> bool:
    """Return whether a class, function or module belongs to Python or an installed package."""
    module = definition if isinstance(definition, ModuleType) else sys.modules.get(definition.__module__)
    if module is None or module.__name__ in sys.builtin_module_names:
        return module is not None
    file = getattr(module, "__file__", None)
    return bool(file) and is_installed_file(str(file))


def read_source_and_used_objects(
    name: str, value: Any, write: Callable[[Any, str], str]
) -> tuple[str, dict[str, object]]:
    """Return the source of a function (of a kind in `FUNCTION`) or class, and the objects that it uses, by name.

    `write(value, label)` returns the text of a default value whose expression may have another value now.
    """
    functions: list[Any] = list_own_methods(value) if isinstance(value, type) else [value]
    # a decorator such as `torch.no_grad` returns a function of another file, with other names
    functions = [inner if isinstance(inner := inspect.unwrap(f), FunctionType) else f for f in functions]
    source, names = _read_source(name, value, functions), dict[str, object]()
    names |= vars(sys.modules.get(value.__module__, object))
    for function in functions:  # later updates win: globals, then enclosing variables
        names |= function.__globals__
        for other, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # the variable may have no value yet
                names[other] = cell.cell_contents
    texts = _list_changed_defaults(source, functions, names | dict(vars(value)), write)
    # annotations that cannot be computed where the file defines them become string literals: their names are imported
    # for type checkers alone, or are of the class itself
    known = names.keys() - {value.__name__}
    nodes = list(ast.walk(ast.parse(source)))
    for annotation in (getattr(node, kind, None) for node in nodes for kind in ("annotation", "returns")):
        parts = [part.id for part in ast.walk(annotation) if isinstance(part, ast.Name)] if annotation else []
        if annotation and not all(part in known or hasattr(builtins, part) for part in parts):
            texts[annotation] = repr(ast.unparse(annotation))
    source = replace_nodes(source, texts)
    try:
        compiled = compile(source, "<source>", "exec")
    except SyntaxError as error:  # a statement such as `nonlocal` is valid only inside another function
        raise CallerError(f"'{name}' cannot be written to a file: {error.msg}; keep no state between calls") from error
    instructions = chain.from_iterable(map(dis.get_instructions, _list_codes(compiled)))
    looked_up = [str(instruction.argval) for instruction in instructions if instruction.opname in _NAME_LOOKUPS]
    used = {other: names[other] for other in looked_up if other in names}
    if used.get(name) is value:
        del used[name]
    for other, item in [*used.items()]:  # of Python's own; after `from numpy import *`, `sum` means another object
        inner = inspect.unwrap(item) if isinstance(item, FunctionType) else item  # IPython wraps `open`
        if hasattr(builtins, other) and (other.startswith("__") or inner is getattr(builtins, other)):
            del used[other]
    # modules such as `PIL.Image`, or `nn.utils.prune`, that the source names and `import PIL` may not load
    dotted = {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    submodules = dict[str, ModuleType]()
    for root, _, rest in (text.partition(".") for text in sorted(dotted)):
        if not isinstance(package := used.get(root), ModuleType):
            continue
        path = f"{package.__name__}.{rest}"
        module = sys.modules.get(path)
        if not module or module.__name__ != path or _LOADED_BY_TORCH.fullmatch(path):  # not `os.path`
            continue
        is_lazy = hasattr(package, "__getattr__") and package.__name__ not in (root, "torch")  # as `np` and `sp` are
        if not is_lazy:
            submodules[path] = module
    return source, used | submodules


def read_class_attributes(value: type, source: str, names: Mapping[str, object]) -> dict[str, object]:
    """Return the class attributes that a class's source sets to a literal or an object of `names`, and its methods."""
    attributes, node = dict[str, object](), ast.parse(source).body[0]
    if not isinstance(node, ast.ClassDef):
        return {}
    for part in node.body:
        if isinstance(part, _FUNCTIONS) and not part.decorator_list and not node.decorator_list:
            found = {part.name: METHOD}
        elif isinstance(part, ast.Assign | ast.AnnAssign) and part.value:
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            found = {one.id: _evaluate_without_calls(part.value, names) for one in targets if isinstance(one, ast.Name)}
        else:
            continue
        private = f"_{value.__name__.lstrip('_')}"
        attributes |= {f"{private}{key}" if re.match("__.*(?<!__)$", key) else key: found[key] for key in found}
    return attributes


def _list_changed_defaults(
    source: str, functions: Sequence[FunctionType], names: Mapping[str, object], write: Callable[[Any, str], str]
) -> dict[ast.expr, str]:
    """Return the values of defaults that the source may compute anew, such as `scale=scale` in a loop, by node."""
    defaults = list[tuple[ast.expr, object]]()
    (statement,) = ast.parse(source).body
    body = statement.body if isinstance(statement, ast.ClassDef) else [getattr(statement, "value", statement)]
    for node in (node for node in body if isinstance(node, (*_FUNCTIONS, ast.Lambda))):
        name = getattr(node, "name", "<lambda>")
        for function in (function for function in functions if function.__code__.co_name == name):
            by_name = zip((one.arg for one in node.args.kwonlyargs), node.args.kw_defaults, strict=True)
            defaults += [(part, (function.__kwdefaults__ or {}).get(key)) for key, part in by_name if part]
            defaults += zip(node.args.defaults, function.__defaults__ or (), strict=False)
    changed = dict[ast.expr, str]()
    for part, value in defaults:
        now = _evaluate_without_calls(part, names)
        is_same = now is value or (type(now) is type(value) and repr(now) == repr(value))
        if now is COMPUTED:  # an expression of functions and constants alone still has its value
            used = [
                names.get(one.id)
                for one in ast.walk(part)
                if isinstance(one, ast.Name) and not hasattr(builtins, one.id)
            ]
            is_same = all(isinstance(one, ModuleType) or callable(one) for one in used)
        if not is_same:
            changed[part] = write(value, f"the default {ast.unparse(part)}")
    return changed


def _evaluate_without_calls(node: ast.expr, names: Mapping[str, object]) -> object:
    """Return the value of a literal or a dotted name; `COMPUTED` for every other expression."""
    with suppress(ValueError, TypeError):
        return ast.literal_eval(node)
    if isinstance(node, ast.Attribute):
        return getattr(_evaluate_without_calls(node.value, names), node.attr, COMPUTED)
    return names.get(node.id, COMPUTED) if isinstance(node, ast.Name) else COMPUTED


def list_own_methods(value: type) -> list[FunctionType]:
    """Return the functions in a class's own body, without functions that decorators or callers add."""
    # `__func__` unwraps static and class methods
    members = (getattr(member, "__func__", member) for member in vars(value).values())
    functions = [member for member in members if isinstance(member, FunctionType)]
    functions = [f for f in functions if f.__qualname__.startswith(f"{value.__qualname__}.")]
    return [f for f in functions if not is_from_installed_package(f) and f.__code__.co_filename != "<string>"]


def _read_source(name: str, value: Any, functions: list[FunctionType]) -> str:
    """Return the source of the statement that defines a function or class, or assigns a lambda."""
    module, codes = sys.modules.get(value.__module__), [function.__code__ for function in functions]
    module_file, is_class = getattr(module, "__file__", None), isinstance(value, type)
    for file in filter(None, dict.fromkeys([*(code.co_filename for code in codes), *([module_file] * is_class)])):
        of_file, lines = [code for code in codes if code.co_filename == file], linecache.getlines(file)
        # of modules, only those that Python's own importer loaded are compared: pytest compiles files in another way
        is_compared = type(getattr(module, "__loader__", None)) is SourceFileLoader
        is_compared |= file != module_file and Path(file).exists()
        if is_compared and not _are_compiled_from(of_file, lines, file):
            linecache.checkcache(file)  # the module may have been loaded anew
            lines = linecache.getlines(file)
            if not _are_compiled_from(of_file, lines, file):
                seen = f"'{value.__qualname__}' differs from its source in {Path(file).name}, edited after its import"
                raise CallerError(f"{seen}; load the module anew (importlib.reload), or start Python anew")
        node = _find_definition(lines, value, of_file)
        if node and not is_class:
            _refuse_other_decorators(value, node)
        if isinstance(node, ast.Lambda):
            return f"{name} = {ast.unparse(node)}"
        if node:
            return textwrap.dedent("".join(lines[_find_first_line(node) - 1 : node.end_lineno])).rstrip()
    advice = f"write it as a {'class with a method' if is_class else 'function with `def`'}, in a file or a cell"
    raise CallerError(f"the source of '{name}' cannot be found; {advice} without %%time")


def _refuse_other_decorators(value: Any, node: Any) -> None:
    """Raise CallerError if a function was wrapped after its definition, or has lost a decorator of its source."""
    decorators = [part for part in getattr(node, "decorator_list", ()) if ast.unparse(part) != "staticmethod"]
    layers, inner = -1, value
    while inner:
        layers, inner = layers + 1, getattr(inner, "__wrapped__", None)
    # a decorator may leave no trace, if it returns the function itself
    is_defined = inspect.unwrap(value).__globals__.get(value.__name__) is value
    if layers > len(decorators) or (layers < len(decorators) and not is_defined):
        seen = f"'{value.__name__}' has other decorators than its source"
        raise CallerError(f"{seen}; write all of them above `def`, your own with functools.wraps")


def _are_compiled_from(codes: list[CodeType], lines: list[str], file: str) -> bool:
    if not lines:
        return True  # the file is gone, so the source cannot be found
    with suppress(SyntaxError):
        compiled = list(_list_codes(compile("".join(lines), file, "exec", dont_inherit=True)))
        return all(code in compiled for code in codes)
    return False


def _list_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_codes(constant)


def _find_definition(lines: list[str], value: Any, codes: list[CodeType]) -> Any:
    kind = ast.ClassDef if isinstance(value, type) else (*_FUNCTIONS, ast.Lambda)
    try:
        tree = parse_source("".join(lines))
    except SyntaxError:
        return None
    nodes: list[Any] = [node for node in ast.walk(tree) if isinstance(node, kind)]
    nodes = [node for node in nodes if getattr(node, "name", "<lambda>") == value.__name__]
    if codes:
        # a class has the lines of its methods
        line, is_class = codes[0].co_firstlineno, isinstance(value, type)
        spans = [(node, _find_first_line(node)) for node in nodes]
        nodes = [node for node, first in spans if first <= line <= (node.end_lineno if is_class else first)]
    if len(nodes) > 1 and codes and isinstance(nodes[0], ast.Lambda):
        # of lambdas in one line, the one whose body has the lines and columns of the code; none if it has no columns
        positions = [span for span in codes[0].co_positions() if None not in span and span[2] != span[3]]
        begin = min(((first, column) for first, _, column, _ in positions), default=None)
        end = max(((last, column) for _, last, _, column in positions), default=None)
        bodies = ((node, node.body) for node in nodes)
        ends = ((node, (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)) for node, body in bodies)
        nodes = [node for node, first, last in ends if (first, last) == (begin, end)]
    return nodes[0] if len(nodes) == 1 else None


def _find_first_line(node: Any) -> int:
    return min(int(part.lineno) for part in (node, *getattr(node, "decorator_list", ())))
