"""Accuracy of explained networks on clean images, and whether it exceeds chance (docs/statistics.md)."""

import math
from collections.abc import Sequence

from roarbench.store.run_result import RunResult

NEAR_CHANCE = "near chance"  # of a reference: its maps explain a network that knows next to nothing
LEVEL = 0.01  # of the test; one network in a hundred that guesses passes for one that does not
MARGIN = 0.1  # of the way from a guess to no error, below which an explained network is next to useless


def describe_chance(networks: Sequence[RunResult], classes: int) -> str:
    """Say, as a sentence, that networks do no better than a guess by their mean accuracy; empty if they do."""
    if not networks:
        return ""
    correct, total = sum(result.correct for result in networks) / len(networks), networks[0].total
    if not is_at_chance(int(correct), total, classes):
        return ""
    seen = f"{correct / total:.1%} of {total:,} untouched test images are answered correctly"
    return f"At chance: {seen}, a guess is right on {1 / classes:.1%}. These numbers test the installation only."


def describe_reference_accuracy(references: Sequence[RunResult], classes: int) -> str:
    """Return the accuracies of references, and whether one is hardly better than a guess."""
    near = any(is_near_chance(row.correct, row.total, classes) for row in references)
    each = ", ".join(f"{row.correct / row.total:.1%}" for row in references)
    name = f"{len(references)} references" if len(references) > 1 else "reference"
    return f"{name} {each} correct" + (f", {NEAR_CHANCE} ({1 / classes:.1%})" if near else "")


def is_at_chance(correct: int, total: int, classes: int) -> bool:
    """Test whether so many correct answers are no more than guesses give: exact binomial, one-sided, at `LEVEL`."""
    above = correct / total - 1 / classes
    if above > 0 and math.exp(-2 * total * above**2) < LEVEL:  # a bound on that chance (Hoeffding 1963, theorem 1)
        return False
    from scipy.special import bdtrc  # as long to import as a board takes, and seldom needed

    return bool(bdtrc(correct - 1, total, 1 / classes) >= LEVEL)


def is_near_chance(correct: int, total: int, classes: int) -> bool:
    """Return whether an accuracy is at chance, or less than a tenth of the way from a guess to 1."""
    return is_at_chance(correct, total, classes) or correct / total - 1 / classes < MARGIN * (1 - 1 / classes)
