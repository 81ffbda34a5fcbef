"""The trust page, with properties of the measure, corrections and unrun suites, and the page of the paper's claims."""

import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

from leaderboard.links import Address, Site
from leaderboard.suite_view import SuiteView, Views
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import MORF, ROAR
from roarbench.plan.suites import SUITES
from roarbench.report.paper_claims import describe_unfinished_results, list_claims_with_findings

TRUST = Path(__file__).parents[1] / "trust.json"  # written by studies/trust.py


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
