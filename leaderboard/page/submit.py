"""Submit: five commands, the row that comes of them, and where it is handed in."""

from typing import Any
from urllib.parse import urlencode

from leaderboard.links import Asked
from leaderboard.words import REPOSITORY, plain
from roarbench.estimators.naming import lookup_estimator
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


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page; the example is a submission of the first board, or its best estimator."""
    view = next(iter(asked.views.values()), None)
    there = [row for row in view.board.rows if row.value.value is not None and not row.control] if view else []
    there.sort(key=lambda row: not lookup_estimator(row.id).submitted)
    named = urlencode({"filename": "my_estimator.py", "value": TEMPLATE.read_text(encoding="utf-8")})
    return {
        "title": "Submit an estimator",
        "description": "Five commands from an idea to a row of the board",
        "commands": [
            (words.format(view.results.suite.name if view else "quick-matched"), why) for words, why in COMMANDS
        ],
        "example": [
            ((asked.links.to("method", estimator=row.id), row.name, row.detail), row, view.board)
            for row in there[:1]
            if view
        ],
        "of": f"{plain(view.title)}: {view.leading.tab}" if view else "",
        "pull": f"{REPOSITORY}/new/main/submissions?{named}" if REPOSITORY else "",
    }
