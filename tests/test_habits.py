"""How tests are written: none imports another, lanes are registered, and no browser test reads a page too early."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
CASES = [path for path in TESTS if path.name.startswith("test_")]
BLOCKS = (ast.Module, ast.FunctionDef, ast.For, ast.With, ast.If)
ACTIONS = {"show", "follow", "pick", "click", "send_keys", "back", "forward", "perform", "select_by_visible_text"}


def imported(tree: ast.AST) -> Iterator[str]:
    """The dotted names of all modules, and of all that comes out of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_no_test_imports_another():
    found = {str(path.relative_to(ROOT)): [*imported(ast.parse(path.read_text()))] for path in TESTS}
    wrong = re.compile(r"(.*\.)?(test_|conftest\b).*|tests(?!\.helpers).*")
    assert {
        path: bad for path, names in found.items() if (bad := [name for name in names if wrong.fullmatch(name)])
    } == {}


def called(node: ast.AST) -> str:
    """The name of the function or method that a statement calls."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return ""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def too_early(source: str) -> list[int]:
    """Lines that load a page without waiting, sleep, or read the browser right after it was told to do something."""
    tree, found = ast.parse(source), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("driver.get", "time.sleep"):
            found.add(node.lineno)
        for first, second in pairwise(getattr(node, "body", []) if isinstance(node, BLOCKS) else []):
            names = {part.id for part in ast.walk(second) if isinstance(part, ast.Name)}
            reads = isinstance(second, ast.Assert | ast.Assign) and "driver" in names and "until" not in names
            if called(first) in ACTIONS and reads:
                found.add(second.lineno)
    return sorted(found)


@pytest.mark.parametrize(
    "path", [path for path in CASES if "\nfrom selenium" in path.read_text()], ids=lambda p: p.stem
)
def test_a_browser_test_waits_for_what_it_reads(path):
    assert too_early(path.read_text()) == []
