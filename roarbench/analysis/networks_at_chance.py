"""Test accuracies against guessing, and describe the result."""

import math
from collections.abc import Sequence

from roarbench.store.run_result import RunResult

NEAR_CHANCE = "near chance"  # note on a reference that hardly classifies better than a random guess
LEVEL = 0.01  # significance level of the test: 1 % of guessing networks are wrongly taken for better than chance
MARGIN = 0.1  # share of the way from chance to 100 % accuracy; an explained network below this share is near chance


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
