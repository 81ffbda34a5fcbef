"""Check whether stored results of one curve are consistent, and whether explained networks exceed chance."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from roarbench.enums import Unit
from roarbench.store.run_result import RunResult

NEAR_CHANCE = "near chance"  # note on a reference that hardly classifies better than a random guess
LEVEL = 0.01  # significance level of the test: 1 % of guessing networks are wrongly taken for better than chance
MARGIN = 0.1  # share of the way from chance to 100 % accuracy; an explained network below this share is near chance


def explain_inconsistency(results: Collection[RunResult], usual_weights: str) -> str:
    """Describe why a row's results for one explained network do not form one curve; empty if they are consistent."""
    weights = {result.weights for result in results if result.run.reference}
    rankings = {result.rankings for result in results} - {""}
    if len(weights - {""}) > 1:
        reason = f"made from {len(weights - {''})} different references"
    elif "" in weights - {usual_weights}:
        reason = "results lack the checksum of the explained weights, which the other rows have"
    elif weights - {usual_weights} and not usual_weights:
        reason = "results have a checksum of the explained weights, which most rows lack"
    elif weights - {usual_weights}:
        reason = "made from a different reference than the other rows"
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


def describe_at_chance(networks: Sequence[RunResult], classes: int) -> str:
    """Return a sentence saying that networks are at chance on average, or an empty string if they are better."""
    if not networks:
        return ""
    correct, total = sum(result.correct for result in networks) / len(networks), networks[0].total
    if not is_at_chance(int(correct), total, classes):
        return ""
    seen = f"{correct / total:.1%} of {total:,} untouched test images are predicted correctly"
    return f"At chance: {seen}, guessing gives {1 / classes:.1%}. These numbers test the installation only."


def describe_reference_accuracy(references: Sequence[RunResult], classes: int) -> str:
    """Describe the accuracies of explained networks, and whether one is near chance."""
    near = any(is_near_chance(row.correct, row.total, classes) for row in references)
    accuracies = ", ".join(f"{row.correct / row.total:.1%}" for row in references)
    name = f"{len(references)} references" if len(references) > 1 else "reference"
    return f"{name} {accuracies} correct" + (f", {NEAR_CHANCE} ({1 / classes:.1%})" if near else "")


def is_at_chance(correct: int, total: int, classes: int) -> bool:
    """Test whether correct predictions are consistent with chance: exact one-sided binomial test at `LEVEL`."""
    above = correct / total - 1 / classes
    # upper bound of the binomial tail (Hoeffding 1963, theorem 1)
    if above > 0 and math.exp(-2 * total * above**2) < LEVEL:
        return False
    from scipy.special import bdtrc  # importing scipy.special takes as long as a board, and few tables need it

    return bool(bdtrc(correct - 1, total, 1 / classes) >= LEVEL)


def is_near_chance(correct: int, total: int, classes: int) -> bool:
    """Return whether an accuracy is at chance, or less than a tenth of the way from chance to 1."""
    return is_at_chance(correct, total, classes) or correct / total - 1 / classes < MARGIN * (1 - 1 / classes)
