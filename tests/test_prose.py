"""Docstrings of functions begin with a verb, those of classes with a noun: what it does, and what it is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ["benchmarks", "leaderboard", "roarbench", "scripts", "toy"]
VERBS = """
    Add Apply Ask Assign Bind Blur Break Build Call Change Check Choose Close Compare Compile Complete Compute
    Continue Copy Count Cut Decode Degrade Describe Divide Do Drain Draw Drop End Estimate Evaluate Explain
    Export Fetch Fill Find Finish Fit Flush Follow Forget Generate Give Group Import Install Join Judge Keep Kill
    Lease Leave Lend Let List Load Make Map Mark Measure Merge Mirror Mix Move Normalise Note Offer Open Pack
    Paste Place Pool Predict Prepare Print Put Raise Rank Read Recall Recompute Record Refuse Release Remember
    Remove Repeat Replace Reproduce Rerun Resample Return Round Run Save Say Scale Score Seal Send Serve Set Show
    Simulate Split Start Stop Store Stretch Submit Sum Tabulate Take Tell Test Time Train Translate Try Tune Turn Undo
    Unpack Update Use Validate Verify Wait Write Yield
"""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CLAUSES = "By From How Of That What When Where Whether Which Who Why With"  # words that begin a clause, not a noun


def sources() -> list[Path]:
    """Return the modules that the rule holds for."""
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def docstrings(source: str, kinds: tuple[type[ast.AST], ...] = FUNCTIONS) -> Iterator[tuple[str, str]]:
    """Yield each function, or class, that has a docstring, `line name`, and the docstring's first word."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            word = re.match(r"\w*", text)
            yield f"{node.lineno} {node.name}", word.group() if word else ""


@pytest.mark.parametrize("module", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_of_functions_begin_with_a_verb(module: Path) -> None:
    first = dict(docstrings(module.read_text("utf-8")))

    assert {name: word for name, word in first.items() if word not in VERBS.split()} == {}


@pytest.mark.parametrize("module", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_of_classes_begin_with_no_clause(module: Path) -> None:
    first = dict(docstrings(module.read_text("utf-8"), (ast.ClassDef,)))

    assert {name: word for name, word in first.items() if word in CLAUSES.split()} == {}


def test_a_noun_clause_is_found() -> None:
    source = 'class A:\n    def of(self):\n        """What it is."""\n\n\nasync def read():\n    """Read it."""\n'

    assert dict(docstrings(source)) == {"2 of": "What", "6 read": "Read"}


def test_a_clause_before_a_class_is_found() -> None:
    source = 'class A:\n    """Where it is."""\n\n\nclass B:\n    """Place of it."""\n'

    assert dict(docstrings(source, (ast.ClassDef,))) == {"1 A": "Where", "5 B": "Place"}
