"""A class name means one thing in the whole repository."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ["roarbench", "leaderboard", "toy", "tests", "scripts", "benchmarks"]


def class_names(path: Path) -> set[str]:
    """Return the names of a module's classes."""
    return {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)}


def test_a_class_name_has_one_meaning() -> None:
    where = defaultdict(set)
    for part in PARTS:
        for path in (ROOT / part).rglob("*.py"):
            for name in class_names(path):
                where[name].add(str(path.relative_to(ROOT)))

    assert len(where) > 200
    assert {name: sorted(paths) for name, paths in where.items() if len(paths) > 1} == {}
