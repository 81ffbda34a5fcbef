"""Can I trust this? What is known of the measure itself, what was wrong, and what was not run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leaderboard.links import Asked
from leaderboard.views import Views
from roarbench.plan.points import expand
from roarbench.plan.suites import SUITES
from roarbench.terms import Retrain

TRUST = Path(__file__).parents[1] / "trust.json"  # written by studies/trust.py


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page."""
    found = json.loads(TRUST.read_text(encoding="utf-8"))
    groups: dict[str, list[dict[str, str]]] = {}
    for finding in found["findings"]:
        groups.setdefault(finding["title"], []).append(finding)
    return {
        "title": "Can I trust this?",
        "description": "Known truth, maps that ask no network, replications, corrections, and what was not run",
        "groups": groups,
        "corrections": found["corrections"][::-1],  # the newest first
        "limits": found["limits"],
        "absent": list(not_run(asked.views)),
    }


def not_run(views: Views) -> Iterator[dict[str, Any]]:
    """Yield the suites of which the store has no result, with the number of their trained or tuned runs."""
    there = {view.results.suite.name for view in views.values()}
    for suite in SUITES.values():
        if suite.name not in there:
            runs = sum(point.cell.retrain is not Retrain.NONE for point in expand(suite))
            yield {"name": suite.name, "about": suite.about, "runs": runs}
