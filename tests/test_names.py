"""A class name means one thing in the package, and one on the board."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = (["roarbench", "toy", "scripts", "benchmarks"], ["leaderboard"])
PUBLIC = ROOT / "roarbench" / "api"  # what users see wraps what the rooms have: `roarbench.Suite` holds a plan's


def class_names(path: Path) -> set[str]:
    """Return the names of a module's classes."""
    return {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: parts[0])
def test_a_class_name_has_one_meaning(parts: list[str]) -> None:
    where = defaultdict(set)
    for path in (path for part in parts for path in (ROOT / part).rglob("*.py") if PUBLIC not in path.parents):
        for name in class_names(path):
            where[name].add(str(path.relative_to(ROOT)))
    assert len(where) > 20
    assert {name: sorted(paths) for name, paths in where.items() if len(paths) > 1} == {}
