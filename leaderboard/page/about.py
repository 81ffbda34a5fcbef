"""The pages around the boards: trust in the measure, the paper's claims, submission of a row, and citation."""

import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from leaderboard.board_contents import BoardContents
from leaderboard.links import Address, Site, make_address, make_file_name
from leaderboard.suite_view import SuiteView, Views
from leaderboard.text_helpers import REPOSITORY
from roarbench.estimators.estimator import find_paper
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import MORF, ROAR
from roarbench.plan.suites import SUITES
from roarbench.report.descriptions_and_repeat_commands import collect_papers_and_settings
from roarbench.report.paper_claims import describe_unfinished_results, list_claims_with_findings
from roarbench.submissions.submission_file import TEMPLATE

TRUST = Path(__file__).parents[1] / "trust.json"  # written by studies/trust.py
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


def build_trust_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of the trust page."""
    there = {view.results.suite.name for view in site.views.values()}
    content, groups = json.loads(TRUST.read_text(encoding="utf-8")), defaultdict[str, list[dict[str, str]]](list)
    for finding in content["findings"]:
        groups[finding["title"]].append(finding)
    return {
        "groups": groups,
        "corrections": content["corrections"][::-1],  # newest first
        "limits": content["limits"],
        "absent": [  # suites without results, with the number of their runs, as `roarbench plan` counts them
            {"name": suite.name, "about": suite.about, "runs": len(list_planned_runs(suite))}
            for suite in SUITES.values()
            if suite.name not in there
        ],
    }


def find_suites_that_test_claims(views: Views) -> list[SuiteView]:
    """Return the suites that have results of the paper's protocols."""
    return [view for view in views.values() if any(view.results.has_started(protocol) for protocol in (ROAR, MORF))]


def build_claims_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of the claims page: each claim with its verdict in each table."""
    records_by_view = {
        view: view.get_or_compute("claims", partial(list_claims_with_findings, view.results))
        for view in find_suites_that_test_claims(site.views)
    }
    tested = {view: records for view, records in records_by_view.items() if any(row["ours"].cells for row in records)}
    unfinished = [
        view.get_or_compute("unfinished claims", partial(describe_unfinished_results, view.results)) for view in tested
    ]
    ours = {
        (view.title, f"ROAR {view.results.describe_included_levels(ROAR)}".rstrip()): [row["ours"] for row in records]
        for view, records in tested.items()
    }
    rows = zip(list_claims_with_findings(None), *ours.values(), strict=True)
    return {
        "tables": [("the paper’s Table 2", "ROAR"), *ours],
        "rows": [(row, list(zip([row["published"], *more], ["", *unfinished], strict=True))) for row, *more in rows],
        "unfinished": [f"{name}: {text}" for (name, _), text in zip(ours, unfinished, strict=True) if text],
    }


def build_submit_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of the page on submitting."""
    first = next((view.results.suite for view in site.views.values()), SUITES["quick"])
    new_file = urlencode({"filename": "my_estimator.py", "value": TEMPLATE.read_text(encoding="utf-8")})
    suite = "SUITE.toml" if first.own else first.name
    return {
        "commands": [(words.format(suite), why) for words, why in COMMANDS],
        "pull": f"{REPOSITORY}/new/main/submissions?{new_file}" if REPOSITORY else "",
    }


def build_cite_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of the page on citing a suite's board."""
    view = site.find_view(address)
    boards = _select_boards_to_cite(view)
    names = dict.fromkeys(row.id for board in boards for row in board.rows)
    found = (paper for name in names for paper in collect_papers_and_settings(name, [view.results]).papers)
    papers = list(dict.fromkeys(found))
    # a submission may give only the address of a paper that another row cites in full
    numbers = {paper: paper.removeprefix("https://arxiv.org/abs/") for paper in papers}
    return {
        "view": view,
        "figures": [
            (board, f"board-{view.slug}{f'-{board.protocol.name}' * bool(n)}.svg") for n, board in enumerate(boards)
        ],
        "permanent": make_file_name(make_address("board", view.slug)),
        "bibtex": "\n\n".join((write_bibtex(view), find_paper("hooker2019benchmark").bibtex)),
        "papers": [paper for paper in papers if sum(numbers[paper] in other for other in papers) == 1],
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
