"""The paper's claims tested on its own table and on a suite of ours, for a person and for a program."""

from typing import Any

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.claims import CLAIMS, Finding, Pair, Tables, curve_gain
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.paper_curves import UNRETRAINED, hooker2019
from roarbench.plan.runs import CLEAN
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.stats.board import ONE_NETWORK
from roarbench.stats.bootstrap import Sample
from roarbench.stats.curves import UNTOUCHED
from roarbench.stats.verdicts import Verdict, compare
from roarbench.terms import Order, Unit


def own_tables(suite_results: SuiteResults, unit: Unit) -> Tables:
    """Return mean accuracies of a suite's complete cells; none at chance, none of rows that mix several results."""
    return Tables(*({suite_results.suite.dataset: _curves(suite_results, protocol, unit)} for protocol in (ROAR, MORF)))


def _curves(suite_results: SuiteResults, protocol: Protocol, unit: Unit) -> dict[str, dict[float, float]]:
    scores = suite_results.scores(protocol, unit)
    if suite_results.at_chance or scores is None or UNTOUCHED not in scores.correct:
        return {}
    clean = float(scores.correct[UNTOUCHED].mean())
    curves: dict[str, dict[float, float]] = {}
    for (name, t), bits in scores.correct.items():
        if name != CLEAN and name not in scores.mixed:
            curves.setdefault(name, {0.0: clean})[t] = float(bits.mean())
    return curves


def claim_records(evidence: Evidence | None) -> list[dict[str, Any]]:
    """Return every claim with its verdict on the paper's numbers and, where a suite's results are given, on ours."""
    published = Tables(hooker2019(Order.MORF), UNRETRAINED)
    records: list[dict[str, Any]] = [
        {"claim": each.id, "text": each.text, "where": each.where, "published": each.test(published)._asdict()}
        for each in CLAIMS
    ]
    if evidence:
        ours = own_tables(evidence.suite_results, evidence.unit)
        clear, counts = significant_pairs(evidence, ours), significant_cells(evidence)
        for claim, record in zip(CLAIMS, records, strict=True):
            record["ours"] = claim.test(ours, clear)._asdict() | {"significant": counts.get(claim.id)}
    return records


def results_record(evidence: Evidence) -> dict[str, Any]:
    """Return the suite, the images and the reference that our numbers are of."""
    suite_results = evidence.suite_results
    return {
        "suite": suite_results.suite.name,
        "version": suite_results.suite.version,
        "limit": suite_results.limit,
        "data": suite_results.data or None,
        "reference": suite_results.suite.given or None,
        "at_chance": bool(suite_results.at_chance),
        "one_network": _one_network(evidence),
    }


def results_title(evidence: Evidence) -> str:
    """Return what our numbers are of, and what nobody may overlook: one network for all, or networks at chance."""
    suite_results = evidence.suite_results
    title = suite_results.title + (f", {ONE_NETWORK}" if _one_network(evidence) else "")
    return ". ".join(filter(None, (title, suite_results.at_chance)))


def _one_network(evidence: Evidence) -> bool:
    return len(evidence.roar.scores.networks) == 1


def significant_cells(evidence: Evidence) -> dict[str, dict[str, int]]:
    """Count by claim the cells whose numbers differ significantly, adjusted for all: that `agree` or `differ`."""
    tables = own_tables(evidence.suite_results, evidence.unit)
    clear = significant_pairs(evidence, tables)
    checks = {claim.id: [check for check in claim.checks(tables) if check.pair] for claim in CLAIMS}
    settled = {id_: [check.agrees for check in found if check.pair in clear] for id_, found in checks.items() if found}
    return {id_: {"agree": sum(agree), "differ": len(agree) - sum(agree)} for id_, agree in settled.items()}


def significant_pairs(evidence: Evidence, tables: Tables) -> set[Pair]:
    """Return the pairs of all claims that differ significantly, adjusted for all of them; none without intervals."""
    pairs = {check.pair for claim in CLAIMS for check in claim.checks(tables) if check.pair}
    differences = {pair: sample for pair in sorted(pairs) if (sample := _difference(evidence, *pair))}
    return {pair for pair, found in compare(differences).items() if found.verdict is not Verdict.SAME}


def _difference(evidence: Evidence, estimator: str, control: str, t: float) -> Sample | None:
    draws, gains = evidence.roar.draws, evidence.roar.areas
    one, other = (draws.accuracy((name, t)) if t else gains.get(name) for name in (estimator, control))
    return one.minus(other) if one and other and evidence.roar.repeated else None


def gain_records() -> list[dict[str, Any]]:
    """Return the gains of all published rankings in accuracy points, best first on each data set."""
    rows = []
    for dataset, curves in hooker2019(Order.MORF).items():
        gains = {name: curve_gain(curve, curves["random"]) for name, curve in curves.items()}
        known = {name: value for name, value in gains.items() if value is not None}
        rows += [
            {"dataset": dataset, "estimator": name, "gain": round(known[name], 2)}
            for name in sorted(known, key=lambda name: -known[name])
        ]
    return rows


def claims_text(records: list[dict[str, Any]], ours: str = "") -> str:
    """Return the claims of `claim_records` for a terminal, each with a line for every table."""
    lines = [f"ours: {ours}"] if ours else []
    for row in records:
        lines.append(f"{row['text']} ({row['where']})")
        lines += [f"  {name:9}  {_words(row[name])}" for name in ("published", "ours") if name in row]
    return "\n".join(lines)


def _words(record: dict[str, Any]) -> str:
    finding = Finding(**{name: value for name, value in record.items() if name != "significant"})
    shown, more = finding.exceptions[:3], len(finding.exceptions) - 3
    against = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    words = f"{finding}; against it: {against}" if shown else str(finding)
    if not (settled := record.get("significant")):
        return words
    return f"{words}; significantly (adjusted for all cells): {settled['agree']} for it, {settled['differ']} against"


def gains_text(records: list[dict[str, Any]]) -> str:
    """Return the published gains for a terminal, one line for each data set."""
    by_dataset: dict[str, list[str]] = {}
    for row in records:
        by_dataset.setdefault(row["dataset"], []).append(f"{row['estimator']} {row['gain']:+.2f}")
    lines = [f"  {dataset:9}  {', '.join(gains)}" for dataset, gains in by_dataset.items()]
    return "\n".join(["Gains over Random from the published table, in accuracy points:", *lines])
