"""The page with commands that add a row, and the page with a board's permanent address, figures and papers."""

from typing import Any
from urllib.parse import urlencode

from leaderboard.board_contents import BEATS, BoardContents
from leaderboard.links import Address, Site, make_address, make_file_name
from leaderboard.suite_view import SuiteView, Views
from leaderboard.text_helpers import REPOSITORY
from roarbench.common.text import list_some
from roarbench.estimators.catalogue import find_estimator_or_placeholder
from roarbench.estimators.estimator import find_paper
from roarbench.plan.suites import SUITE_VERSIONS
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
_DESIGN = {  # from fields of a suite to their descriptions
    "recipe": "Recipe of the scored networks",
    "reference_recipe": "Recipe of the explained networks",
    "references": "Explained networks",
    "model": "Network",
    "maps": "How maps are computed",
    "tuned_on": "Masks that networks are tuned on",
}


def build_submit_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of the page on submitting.

    The example is the best submission on the first board or, if there is no submission, the best estimator.
    """
    view = next(iter(site.views.values()), None)
    boards = _select_boards_to_cite(view) if view else []
    rows = [row for row in view.board.rows if row.value.value is not None and not row.control] if view else []
    best = sorted(rows, key=lambda row: not find_estimator_or_placeholder(row.id).submitted)[:1]
    new_file = urlencode({"filename": "my_estimator.py", "value": TEMPLATE.read_text(encoding="utf-8")})
    suite = view.results.suite.name if view else "quick"
    return {
        "view": view,
        "commands": [(words.format(suite), why) for words, why in COMMANDS],
        "example": [
            (board, board.rows_by_id[row.id]) for row in best for board in boards if row.id in board.rows_by_id
        ],
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
        "changes": list_changes_since_last_version(view, site.views),
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


def list_changes_since_last_version(view: SuiteView, views: Views) -> list[str]:
    """Describe the changes since the suite's previous version; the list is empty for the first version."""
    suite = view.results.suite
    versions = [version for name, version in SUITE_VERSIONS if name == suite.name]
    if suite.version not in versions[1:]:
        return []
    before = SUITE_VERSIONS[suite.name, versions[versions.index(suite.version) - 1]]
    design = {words: [getattr(spec, name) for spec in (before, suite)] for name, words in _DESIGN.items()}
    design["Protocols"] = [", ".join(dict.fromkeys(b.protocol.title for b in s.blocks)) for s in (before, suite)]
    changes = [f"{words}: {a or 'none'} before, now {b or 'none'}." for words, (a, b) in design.items() if a != b]
    for words, here, there in (("New rows", suite, before), ("Removed rows", before, suite)):
        names = [name for name in here.estimators if name not in {*there.estimators, *here.added}]
        changes += [f"{words}: {', '.join(names)}."] if names else []  # submissions are not part of a version
    old = next((earlier for earlier in views.values() if earlier.results.suite == before), None)
    if old and old.headline_protocol == view.headline_protocol:
        kinds = {row.id: row.colour_class == BEATS for row in old.board.rows}
        moved = [
            row.name
            for row in view.board.rows
            if kinds.get(row.id, row.colour_class == BEATS) != (row.colour_class == BEATS)
        ]
        changes += [f"Changed verdict: {list_some(moved, 6)}."] if moved else []
    return changes
