"""Check whether all results of a row have the same provenance: networks, rankings and rounding settings."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from roarbench.common.enums import Unit
from roarbench.store.run_result import RunResult


def explain_inconsistency(results: Collection[RunResult], usual_weights: str) -> str:
    """Describe why a row's results for one explained network do not form one curve; empty if they are consistent."""
    weights = {result.weights for result in results if result.run.reference}
    rankings = {result.rankings for result in results} - {""}
    if len(weights - {""}) > 1:
        reason = f"made from {len(weights - {''})} different references"
    elif weights - {usual_weights}:
        reason = "made from a different reference than the other rows, or one without a recorded checksum"
    elif len(rankings) > 1:
        reason = f"made from {len(rankings)} different rankings"
    else:
        return ""
    return f"{reason}; compute the row again in a new --store"


def find_usual_weights(
    explained: Collection[RunResult], find_network_number: Callable[[RunResult], int], submissions: Collection[str]
) -> dict[int, str]:
    """Return, by network number, the checksum of the explained weights that most results have.

    Results of `submissions` count only for networks without results of the suite's own rows.
    """
    own, others = (defaultdict[int, Counter[str]](Counter) for _ in range(2))
    for result in explained:
        counts = others if result.run.cell.estimator in submissions else own
        counts[find_network_number(result)][result.weights] += 1
    return {
        number: max(checksums, key=lambda weights: (checksums[weights], bool(weights)))
        for number, checksums in {**others, **own}.items()
    }


def has_same_rankings_for_all_networks(curve: Iterable[RunResult]) -> bool:
    """Return whether a row's rankings are equal for all explained networks, so its maps do not depend on a network."""
    results = [result for result in curve if result.run.reference and result.run.cell.retrain.trains]
    rankings = {result.rankings for result in results}
    return len({result.run.reference for result in results}) > 1 and len(rankings) == 1 and "" not in rankings


def find_provenance_differences(results: Iterable[RunResult]) -> dict[str, list[str]]:
    """Return the provenance settings in which these results differ, with their values."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for result in results:
        for name, value in result.provenance.rounding_settings.items():
            values[name].add(value)
    return {name: sorted(seen_values) for name, seen_values in values.items() if len(seen_values) > 1}


class UnrankedRow(NamedTuple):
    """A row that has no rank because its results are inconsistent, and the reason."""

    protocol: str
    unit: Unit
    estimator: str
    reason: str
