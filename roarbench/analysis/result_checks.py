"""Check results: whether networks are better than chance, and whether all results of a row have the same provenance."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from roarbench.common.enums import Unit
from roarbench.common.text import format_percent_number
from roarbench.stats.chance import is_at_chance
from roarbench.store.run_result import RunResult

# notes on a reference that hardly classifies better than chance, or is not shown to, with what follows for its maps
NEAR_CHANCE, NOT_ABOVE_CHANCE = "near chance", "not significantly above chance"
CONSEQUENCES = {
    NEAR_CHANCE: "the network has hardly learnt the classes, and its maps have little to explain",
    NOT_ABOVE_CHANCE: "nothing shows that the network has learnt the classes, which its maps are to explain",
}


def describe_chance(chance: float, classes: int) -> str:
    """Return chance in percent; if one class is more frequent than others, with a note on the class."""
    note = " (always the largest class)" if chance > 1 / classes else ""
    return f"{format_percent_number(chance)}%{note}"


def describe_networks_at_chance(networks: Sequence[RunResult], chance: float, chance_text: str) -> str:
    """Return a sentence saying that networks are at chance on average, or an empty string if they are better."""
    if not networks:
        return ""
    correct, total = sum(result.correct for result in networks) / len(networks), networks[0].total
    if not is_at_chance(int(correct), total, chance):
        return ""
    seen = f"{correct / total:.1%} of {total:,} untouched test images are predicted correctly"
    return f"At chance: {seen}, chance is {chance_text}. These numbers test the installation only."


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


def find_most_frequent_weights(results: Collection[RunResult], submissions: Collection[str]) -> dict[str, str]:
    """Return, by key of the explained network, the checksum of its weights that most of these results have.

    Results of `submissions` count only for networks without results of the suite's own rows.
    """
    pairs = {pair for pair in set(map(attrgetter("run.reference", "weights"), results)) if pair[0]}
    if len(unanimous := dict(pairs)) == len(pairs):
        return unanimous
    own, others = (defaultdict[str, Counter[str]](Counter) for _ in range(2))
    seen = Counter(map(attrgetter("run.cell.estimator", "run.reference", "weights"), results))
    for (estimator, network, weights), count in seen.items():
        counts = others if estimator in submissions else own
        counts[network][weights] += count
    return {
        network: max(checksums, key=lambda weights: (checksums[weights], bool(weights)))
        for network, checksums in {**others, **own}.items()
        if network
    }


def has_same_rankings_for_all_networks(curve: Iterable[RunResult]) -> bool:
    """Return whether a row's rankings are equal for all explained networks, so its maps do not depend on a network."""
    results = [result for result in curve if result.run.reference and result.run.cell.retrain.trains]
    rankings = {result.rankings for result in results}
    return len({result.run.reference for result in results}) > 1 and len(rankings) == 1 and "" not in rankings


class UnrankedRow(NamedTuple):
    """A row that has no rank because its results are inconsistent, and the reason."""

    protocol: str
    unit: Unit
    estimator: str
    reason: str


def describe_rows_without_rank(unranked: Iterable[UnrankedRow]) -> list[str]:
    """Describe each row without a rank, with the reason."""
    boards_by_row = defaultdict[tuple[str, str], list[str]](list)
    for row in unranked:
        boards_by_row[row.estimator, row.reason].append(f"{row.protocol} {row.unit}")
    return [f"{name} has no rank ({', '.join(boards)}): {reason}." for (name, reason), boards in boards_by_row.items()]
