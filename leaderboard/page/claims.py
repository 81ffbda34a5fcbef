"""The paper's claims, on its own numbers and on those of every suite that has a cell of any."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from leaderboard.asked import Asked
from leaderboard.links import Address, address
from leaderboard.text import plain
from leaderboard.views import SuiteView, Views
from roarbench.protocols import SHOWN
from roarbench.report.claim_table import claim_records

TESTED = ("roar", "morf")  # protocols that claims are about


class Finding(NamedTuple):
    """A claim on one table of numbers.

    Attributes:
        verdict: In a word.
        agree: Cells that agree, of how many; empty where there is none.
        against: The first exceptions, and the cells that differ significantly, in a sentence.
    """

    verdict: str
    agree: str
    against: str


def addresses(views: Views) -> Iterator[Address]:
    """Yield the page, where a suite has what the paper measured."""
    if any(_tests(view) for view in views.values()):
        yield address("claims")


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page."""
    tested = [view for view in asked.views.values() if _tests(view)]
    found = [(plain(view.title), view.kept("claims", partial(claim_records, view.evidence))) for view in tested]
    ours = [(title, records) for title, records in found if any(row["ours"]["cells"] for row in records)]
    rows = [
        (
            record["text"],
            record["where"],
            [_finding(record["published"]), *(_finding(found[i]["ours"]) for _, found in ours)],
        )
        for i, record in enumerate(claim_records(None))
    ]
    return {
        "title": "The paper’s claims, tested",
        "description": "The claims of Hooker et al. 2019 on its own numbers and on those of this board",
        "tables": ["the paper’s Table 2", *(title for title, _ in ours)],
        "rows": rows,
    }


def _tests(view: SuiteView) -> bool:
    return any(view.results.begun(SHOWN[name]) for name in TESTED)


def _finding(found: dict[str, Any]) -> Finding:
    shown, more = list(found["exceptions"][:3]), len(found["exceptions"]) - 3
    against = [f"Against it: {', '.join(shown)}{f' and {more} more' if more > 0 else ''}."] if shown else []
    settled = found.get("significant")
    if settled:
        against.append(f"Significantly: {settled['agree']} for it, {settled['differ']} against.")
    agree = f"{found['agree']} of {found['cells']}" if found["cells"] else ""
    return Finding(str(found["verdict"]), agree, " ".join(against))
