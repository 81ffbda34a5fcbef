"""How code is written: tests import no other, lanes are registered, class names are unique, browser tests wait."""

import ast
import re
import tomllib
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
CASES = [path for path in TESTS if path.name.startswith("test_")]
NO_WAIT = ("driver.get", "time.sleep")
ACTIONS = re.compile(r"\b(show|follow|pick|click|send_keys|back|forward|perform|select_by_visible_text)\(")


def test_no_test_imports_another():
    wrong = re.compile(r"(?m)^ *(?:from|import) +(?:tests\b(?!\.helpers)|.*\b(?:test_|conftest\b)).*")
    assert {str(path): found for path in TESTS if (found := wrong.findall(path.read_text()))} == {}


def test_the_lanes_of_the_makefile_are_the_markers_that_are_registered():
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    lanes = re.findall(r'pytest .*-m (?:"not \((.*)\)"|(\w+))', (ROOT / "Makefile").read_text())
    named = {name for lane in lanes for part in lane for name in part.split(" or ") if name}
    assert named == {marker.partition(":")[0] for marker in markers}


@pytest.mark.parametrize("parts", [("roarbench", "toy", "scripts", "benchmarks"), ("leaderboard",)], ids=lambda p: p[0])
def test_a_class_name_has_one_meaning(parts):
    """But in `roarbench.api`: what users see wraps what the rooms have."""
    files = [path for part in parts for path in (ROOT / part).rglob("*.py") if path.parent.name != "api"]
    names = Counter(name for path in files for name in re.findall(r"(?m)^ *class (\w+)", path.read_text()))
    assert [name for name, times in names.items() if times > 1] == []


def too_early(source: str) -> list[int]:
    """Lines that load a page without waiting, sleep, or read the browser right after it was told to do something."""
    nodes = list(ast.walk(ast.parse(source)))
    found = {node.lineno for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node) in NO_WAIT}
    bodies = [node.body for node in nodes if isinstance(getattr(node, "body", None), list)]
    for first, second in (pair for body in bodies for pair in pairwise(body)):
        read = ast.unparse(second) if isinstance(second, ast.Assert | ast.Assign) else ""
        acts = isinstance(first, ast.Expr) and ACTIONS.search(ast.unparse(first))
        if acts and re.search(r"\bdriver\b", read) and not re.search(r"\buntil\b", read):
            found.add(second.lineno)
    return sorted(found)


@pytest.mark.parametrize(
    "path", [path for path in CASES if "\nfrom selenium" in path.read_text()], ids=lambda p: p.stem
)
def test_a_browser_test_waits_for_what_it_reads(path):
    assert too_early(path.read_text()) == []
