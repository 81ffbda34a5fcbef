"""Test the paper's claims on its own table and on a suite's results."""

from collections.abc import Callable
from statistics import fmean
from typing import Any, NamedTuple

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.own_network_gain_of_suite import compute_own_network_gains
from roarbench.analysis.paper_claims import (
    CLAIMS,
    HALF,
    RANDOM_UNRETRAINED,
    UNRETRAINED,
    AccuracyTables,
    ClaimFinding,
    ClaimOutcome,
    ComparedPair,
    read_hooker2019,
)
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, Unit
from roarbench.common.text import list_some
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import MORF, OWN_NETWORK, ROAR, Protocol
from roarbench.stats.board_records import ONE_NETWORK, RANDOM
from roarbench.stats.bootstrap_intervals import Sample
from roarbench.stats.correctness_and_gain import UNTOUCHED
from roarbench.stats.verdicts import Verdict, judge_comparisons


def compute_accuracy_tables(suite_results: SuiteResults, unit: Unit) -> AccuracyTables:
    """Return mean accuracies of a suite's complete and consistent cells; empty if networks are at chance."""
    roar, unretrained = (
        {suite_results.suite.dataset: _collect_mean_accuracies(suite_results, protocol, unit)}
        for protocol in (ROAR, MORF)
    )
    return AccuracyTables(roar, unretrained)


def _collect_mean_accuracies(
    suite_results: SuiteResults, protocol: Protocol, unit: Unit
) -> dict[str, dict[float, float]]:
    scores = suite_results.collect_correctness(protocol, unit)
    if suite_results.at_chance_warning or scores is None or UNTOUCHED not in scores.correct:
        return {}
    clean = float(scores.correct[UNTOUCHED].mean())
    curves: dict[str, dict[float, float]] = {}
    for (name, t), bits in scores.correct.items():
        if name != CLEAN and name not in scores.inconsistent:
            curves.setdefault(name, {0.0: clean})[t] = float(bits.mean())
    return curves


class ClaimNumbers(NamedTuple):
    """Accuracies on which claims are tested, and a function from a row and a level to draws; level 0 means the gain."""

    tables: AccuracyTables
    get_draws: Callable[[str, float], Sample | None]


def collect_roar_accuracies(draws: SuiteDraws) -> ClaimNumbers:
    """Return a suite's accuracies under ROAR and without retraining."""
    roar = draws.roar

    def get_draws(name: str, t: float) -> Sample | None:
        if not roar.has_intervals:
            return None
        if name == RANDOM_UNRETRAINED.estimator:
            return draws.draw_gains(MORF, draws.unit).draws.get_accuracy((RANDOM, t))
        if name == HALF:
            clean = roar.draws.get_accuracy(UNTOUCHED)
            return clean and Sample(clean.value / 2, clean.draws / 2)
        return roar.draws.get_accuracy((name, t)) if t else roar.areas.get(name)

    return ClaimNumbers(compute_accuracy_tables(draws.suite_results, draws.unit), get_draws)


def collect_negated_own_network_gains(draws: SuiteDraws) -> ClaimNumbers:
    """Return negated own-network gains of complete rows, because lower is better for claims; empty at chance."""
    results, unit = draws.suite_results, draws.unit
    levels = results.list_included_levels(OWN_NETWORK, unit)
    at_chance = results.at_chance_warning
    gains = {} if at_chance else compute_own_network_gains(results, OWN_NETWORK, unit, draws.bootstrap)
    samples = {(name, t): sample for name, gain in gains.items() for t, sample in zip(levels, gain.levels, strict=True)}
    samples |= {(name, 0.0): gain.gain for name, gain in gains.items()}
    curves = {name: {t: -samples[name, t].value for t in levels} for name in gains}
    return ClaimNumbers(
        AccuracyTables({results.suite.dataset: curves}, {}, lambda curve, _: -fmean(curve.values())),
        lambda name, t: samples.get((name, t)),
    )


def list_claims_with_findings(draws: SuiteDraws | None) -> list[dict[str, Any]]:
    """Return every claim with its finding on the paper's numbers (`published`) and, if given, on a suite's results.

    The key `ours` has the finding on the suite's ROAR results, and `own_network` that on its own-network gains.
    """
    published = AccuracyTables(read_hooker2019(Order.MORF), UNRETRAINED)
    records: list[dict[str, Any]] = [
        {"claim": claim.id, "text": claim.text, "where": claim.where, "published": claim.test(published)}
        for claim in CLAIMS
    ]
    if not draws:
        return records
    measures = {"ours": collect_roar_accuracies(draws)}
    if draws.suite_results.list_included_levels(OWN_NETWORK, draws.unit):
        measures["own_network"] = collect_negated_own_network_gains(draws)
    for name, measured in measures.items():
        significant = find_significant_claim_pairs(measured)
        for claim, record in zip(CLAIMS, records, strict=True):
            testable = name == "ours" or claim.own_network_testable
            unasked = ClaimFinding(ClaimOutcome.UNASKED, 0, 0, ())
            record[name] = claim.test(measured.tables, significant) if testable else unasked
    return records


def make_results_title(draws: SuiteDraws) -> str:
    """Return the title of a suite's results, with their main limits: one explained network, or networks at chance."""
    has_one_network = len(draws.roar.scores.explained_networks) == 1
    title = draws.suite_results.title + (f", {ONE_NETWORK}" if has_one_network else "")
    return ". ".join(filter(None, (title, draws.suite_results.at_chance_warning)))


def find_significant_claim_pairs(measured: ClaimNumbers) -> set[ComparedPair]:
    """Return the pairs of cells that differ significantly, adjusted for all claims; empty without intervals."""
    pairs = {pair for claim in CLAIMS for check in claim.checks(measured.tables) for pair in check.pairs}
    differences = {pair: sample for pair in sorted(pairs) if (sample := _subtract_draws(measured, pair))}
    return {pair for pair, judged in judge_comparisons(differences).items() if judged.verdict is not Verdict.SAME}


def _subtract_draws(measured: ClaimNumbers, pair: ComparedPair) -> Sample | None:
    estimator, control = (measured.get_draws(name, pair.t) for name in (pair.estimator, pair.control))
    return estimator.subtract(control) if estimator and control else None


def format_claims(records: list[dict[str, Any]], results_title: str = "") -> str:
    """Format the claims of `list_claims_with_findings` for a terminal, each with one line for every kind of results."""
    lines = [f"ours: {results_title}"] if results_title else []
    kinds = [kind for kind in ("published", "ours", "own_network") if any(kind in record for record in records)]
    width = max(map(len, kinds), default=0)
    for record in records:
        lines.append(f"{record['text']} ({record['where']})")
        lines += [f"  {kind.replace('_', '-'):{width}}  {_describe_finding(record[kind])}" for kind in kinds]
    return "\n".join(lines)


def _describe_finding(finding: ClaimFinding) -> str:
    text = f"{finding}; exceptions: {list_some(finding.exceptions)}" if finding.exceptions else str(finding)
    if not (cells := finding.significant):
        return text
    counts = f"{cells['agree']} agree with the claim, {cells['differ']} contradict it"
    return f"{text}; significant cells (adjusted for all cells): {counts}"
