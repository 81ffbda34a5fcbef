"""What results differ in that should be the same in all of a curve: explained weights, rankings, machines."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from roarbench.enums import Unit
from roarbench.store.run_result import RunResult


def find_inconsistency(results: Iterable[RunResult], usual: str) -> str:
    """Say what does not belong together in one curve, or beside the usual weights, if known; empty where all does."""
    suite_results = list(results)
    weights = {result.weights for result in suite_results if result.run.reference}
    rankings = {result.rankings for result in suite_results} - {""}
    if len(weights - {""}) > 1:
        reason = f"made from {len(weights - {''})} different references"
    elif "" in weights - {usual}:
        reason = "results without the checksum of the weights that they explain, which the other rows have"
    elif weights - {usual} and not usual:
        reason = "results with a checksum of the weights that they explain, which most rows do not have"
    elif weights - {usual}:
        reason = "made from another reference than the other rows"
    elif len(rankings) > 1:
        reason = f"made from {len(rankings)} different rankings"
    else:
        return ""
    return f"{reason}; do it again in a fresh --store"


def find_usual_weights(
    explained: Collection[RunResult], number: Callable[[RunResult], int], entered: Collection[str]
) -> dict[int, str]:
    """Return by number of the reference the checksum of the weights that most rows explain, if they say it.

    `number` says which reference a result explains; those of `entered` count where none of the suite's own explains it.
    """
    own = [result for result in explained if result.run.cell.estimator not in entered]
    said = {number(result) for result in own}
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for result in (*own, *(result for result in explained if number(result) not in said)):
        counts[number(result)][result.weights] += 1
    return {at: max(found, key=lambda weights: (found[weights], bool(weights))) for at, found in counts.items()}


def ignores_reference(curve: Iterable[RunResult]) -> bool:
    """Return whether a row's maps do not depend on the reference: its rankings are the same for all."""
    results = [result for result in curve if result.run.reference and result.run.cell.retrain.trains]
    rankings = {result.rankings for result in results}
    return len({result.run.reference for result in results}) > 1 and len(rankings) == 1 and "" not in rankings


def find_differences(results: Iterable[RunResult]) -> dict[str, list[str]]:
    """Return in what these results were computed differently: its name and the different values."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for result in results:
        for name, value in result.provenance.computed_with.items():
            values[name].add(value)
    return {name: sorted(found) for name, found in values.items() if len(found) > 1}


class Dropped(NamedTuple):
    """A row that has no place though its results may all be there, and why these do not belong together."""

    protocol: str
    unit: Unit
    estimator: str
    reason: str
