"""Submit: five commands, the row that comes of them, and where it is handed in."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from leaderboard.asked import Asked
from leaderboard.links import Address, address
from leaderboard.records import BoardRecord, BoardRow
from leaderboard.source import lookup_estimator
from leaderboard.views import Views
from leaderboard.words import REPOSITORY
from roarbench.submissions.file import TEMPLATE

COMMANDS = (  # with what each is for; {} is the suite
    ("roarbench new my-estimator", "a file to start from: one function"),
    ("roarbench validate my_estimator.py", "checked in a sandbox, in seconds"),
    ("roarbench run --suite {}", "once: the rows that it stands beside"),
    ("roarbench run --suite {} --submission my_estimator.py", "its own row"),
    (
        'roarbench submit my-estimator@HASH --suite {} --results results --about "A. Author" --write',
        "a branch with the row, for a pull request; the table says the hash",
    ),
)


def addresses(views: Views) -> Iterator[Address]:
    """Yield the one page."""
    yield address("submit")


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page, with a row of the first suite as an example."""
    view = next(iter(asked.views.values()), None)
    name = view.results.suite.name if view else "quick-matched"
    board = view.board if view else None
    row = example(board) if board else None
    return {
        "title": "Submit an estimator",
        "description": "Five commands from an idea to a row of the board",
        "commands": [(command.format(name), why) for command, why in COMMANDS],
        "board": board,
        "row": row,
        "best": board.by_id.get(board.best_control) if board else None,
        "pull": pull_request(),
    }


def pull_request() -> str:
    """Return the address of a pull request with the file to start from; empty where the source has no address."""
    asked = urlencode({"filename": "my_estimator.py", "value": template()})
    return f"{REPOSITORY}/new/main/submissions?{asked}" if REPOSITORY else ""


def template() -> str:
    """Return the file to start from."""
    return TEMPLATE.read_text(encoding="utf-8")


def example(board: BoardRecord) -> BoardRow | None:
    """Return a submission of the board, else its best estimator; None where no row has a value."""
    there = [row for row in board.rows if row.value.value is not None and not row.control]
    return next((row for row in there if lookup_estimator(row.id).submitted), there[0] if there else None)
