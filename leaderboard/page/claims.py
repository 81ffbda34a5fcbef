"""The paper's claims, on its own numbers and on those of every suite that has a cell of any."""

from functools import partial
from typing import Any

from leaderboard.links import Asked
from leaderboard.views import SuiteView, Views
from leaderboard.words import plain
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.report.claim_table import claim_records
from roarbench.text import some


def tested(views: Views) -> list[SuiteView]:
    """Return the suites that have what the paper measured."""
    return [view for view in views.values() if any(view.results.begun(protocol) for protocol in (ROAR, MORF))]


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page: of each claim its words, and for each table of numbers what it says there."""
    views = tested(asked.views)
    found = {plain(view.title): view.kept("claims", partial(claim_records, view.evidence)) for view in views}
    ours = {title: records for title, records in found.items() if any(row["ours"]["cells"] for row in records)}
    rows = zip(claim_records(None), *ours.values(), strict=True)
    return {
        "title": "The paper’s claims, tested",
        "description": "The claims of Hooker et al. 2019 on its own numbers and on those of this board",
        "tables": ["the paper’s Table 2", *ours],
        "rows": [(row, [row["published"], *(each["ours"] for each in more)]) for row, *more in rows],
        "against": _against,
    }


def _against(found: dict[str, Any]) -> str:
    """Return the first exceptions, and the cells that differ significantly, in a sentence."""
    settled, exceptions = found.get("significant"), list(found["exceptions"])
    said = [f"Against it: {some(exceptions)}."] if exceptions else []
    said += [f"Significantly: {settled['agree']} for it, {settled['differ']} against."] if settled else []
    return " ".join(said)
