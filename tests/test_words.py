"""The glossary, docs/words.md: its names are public, and public names contain no avoided word."""

import inspect
import re

import pytest

import roarbench
from roarbench.cli.main import app
from roarbench.common.enums import Order, Unit
from roarbench.compute.fills import FILL_WORDS, FILLS
from roarbench.estimators.catalogue import ESTIMATORS, TWINS
from roarbench.plan.protocols import SHOWN
from roarbench.store.results import Origin
from tests.helpers.processes import ROOT

PAGE = (ROOT / "docs" / "words.md").read_text("utf-8")
LINES = PAGE.splitlines()
ROWS = [number for number, line in enumerate(LINES) if line.startswith("| **")]
CELLS = [[cell.strip() for cell in LINES[number].split("|")[1:-1]] for number in ROWS]
TERMS = {term.strip("*"): (names, avoided) for term, _, names, avoided in CELLS}


@pytest.fixture(scope="module")
def public():
    """All public names: of Python, the command line, values and parameters."""
    commands = app.commands
    options = {name for command in commands.values() for param in command.params for name in param.opts}
    functions = [getattr(roarbench, name) for name in roarbench.__all__]
    arguments = {name for each in functions if inspect.isfunction(each) for name in inspect.signature(each).parameters}
    values = {*ESTIMATORS, *TWINS, *SHOWN, *Origin, *FILLS, *FILL_WORDS, *Order, *Unit}
    parameters = {name for estimator in ESTIMATORS.values() for name in estimator.parameters}
    spelled = {f"rb.{name}" for name in roarbench.__all__} | {f"roarbench {name}" for name in commands}
    return spelled | options | arguments | values | parameters


def test_glossary_has_one_table_row_per_term():
    first = LINES.index("| word | meaning | names | not |") + 2
    assert [*range(first, first + len(ROWS))] == ROWS
    assert len(TERMS) == len(ROWS) and 30 <= len(TERMS) <= 40


@pytest.mark.parametrize("term", TERMS)
def test_glossary_names_are_public(term, public):
    assert {*re.findall("`([^`]+)`", TERMS[term][0])} <= public


def test_public_names_contain_no_avoided_word(public):
    avoided = {word for _, words in TERMS.values() for word in words.split(", ") if word}
    assert len(avoided) >= 8
    assert avoided & {part for name in public for part in re.split(r"[\s._:-]+", name)} == set()
