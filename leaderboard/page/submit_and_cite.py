"""The page with commands that add a row, and the page with a board's permanent address, figures and papers."""

from typing import Any
from urllib.parse import urlencode

from leaderboard.board_contents import BoardContents
from leaderboard.links import Address, Site, make_address, make_file_name
from leaderboard.suite_view import SuiteView
from leaderboard.text_helpers import REPOSITORY
from roarbench.estimators.estimator import find_paper
from roarbench.report.descriptions_and_repeat_commands import collect_papers_and_settings
from roarbench.submissions.submission_file import TEMPLATE

COMMANDS = (  # each command with its purpose; {} stands for the suite
    ("roarbench new-submission my-estimator", "writes a file to start from, with one function"),
    ("roarbench validate my_estimator.py", "checks it in a sandbox, in seconds"),
    ("roarbench run --suite {}", "needed once: computes the rows to compare with"),
    ("roarbench run --suite {} --submission my_estimator.py", "computes its row"),
    (
        'roarbench submit my-estimator --suite {} --results results --about "A. Author" --write',
        "makes a branch with the row, for a pull request",
    ),
)


def build_submit_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of the page on submitting."""
    view = next(iter(site.views.values()), None)
    new_file = urlencode({"filename": "my_estimator.py", "value": TEMPLATE.read_text(encoding="utf-8")})
    suite = view.results.suite.name if view else "quick"
    return {
        "commands": [(words.format(suite), why) for words, why in COMMANDS],
        "pull": f"{REPOSITORY}/new/main/submissions?{new_file}" if REPOSITORY else "",
    }


def build_cite_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of the page on citing a suite's board."""
    view = site.find_view(address)
    boards = _select_boards_to_cite(view)
    names = dict.fromkeys(row.id for board in boards for row in board.rows)
    papers = (paper for name in names for paper in collect_papers_and_settings(name, [view.results]).papers)
    return {
        "view": view,
        "figures": [
            (board, f"board-{view.slug}{f'-{board.protocol.name}' * bool(n)}.svg") for n, board in enumerate(boards)
        ],
        "permanent": make_file_name(make_address("board", view.slug)),
        "bibtex": "\n\n".join((write_bibtex(view), find_paper("hooker2019benchmark").bibtex)),
        "papers": list(dict.fromkeys(papers)),
    }


def _select_boards_to_cite(view: SuiteView) -> list[BoardContents]:
    """Return the headline boards if the suite leads with ROAR and own-network gain, else its first board."""
    return view.headline_boards if view.leads_with_roar_and_own_network else [view.board]


def write_bibtex(view: SuiteView) -> str:
    """Write a BibTeX entry for a suite's board."""
    year = max((result.created.year for result in view.results.results.values()), default="")
    fields = {
        "title": f"{{roarbench: {view.title}}}",
        "author": "{The roarbench maintainers}",
        "year": f"{year}",
        "howpublished": f"\\url{{{REPOSITORY}}}" if REPOSITORY else "",
        "note": "; ".join(
            f"{board.protocol.title}, table {view.table(board.protocol).runs_hash}"
            for board in _select_boards_to_cite(view)
        ),
    }
    lines = [f"  {name:13} = {{{value}}}" for name, value in fields.items() if value]
    return "\n".join([f"@misc{{roarbench-{view.slug},", ",\n".join(lines), "}"])
