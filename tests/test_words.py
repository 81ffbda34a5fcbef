"""The glossary is held to the source: every class that rooms share has its line, and no line is of anything else."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLASSES = (ROOT / "docs/words.md").read_text().partition("\n## Classes\n")[2].partition("\n## ")[0]
LISTED = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| \S.* \|$", CLASSES, re.MULTILINE)
TOPS = ("leaderboard", "roarbench", "toy")
UNLISTED = {"roarbench.cli", "roarbench.errors"}


def room(path: Path) -> str:
    """Return the room of a module: a package or a module of the ground floor."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[: 2 if parts[0] == "roarbench" else 1])


def shared_classes() -> set[tuple[str, str]]:
    """Return the public classes that another room imports by name, and their rooms."""
    homes, users = {}, defaultdict(set)
    for top in TOPS:
        for path in (ROOT / top).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            homes |= {node.name: room(path) for node in tree.body if isinstance(node, ast.ClassDef)}
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in TOPS:
                    for name in node.names:
                        users[name.name].add(room(path))
    return {(name, home) for name, home in homes.items() if users[name] - {home} and home not in UNLISTED}


def test_every_class_that_rooms_share_has_its_line_and_no_other():
    assert len(LISTED) == len(set(LISTED))
    assert sorted(set(LISTED) ^ shared_classes()) == []  # name and room; write its line, or take it out


def test_the_lines_are_sorted_by_room():
    lines = [(home, name) for name, home in LISTED]
    assert lines == sorted(lines)
