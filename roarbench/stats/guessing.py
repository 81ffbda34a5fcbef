"""Whether a network does better than a guess (docs/statistics.md)."""

import math

LEVEL = 0.01  # of the test; one network in a hundred that guesses passes for one that does not
MARGIN = 0.1  # of the way from a guess to no error, below which an explained network is next to useless


def at_chance(correct: int, total: int, classes: int) -> bool:
    """Test whether so many correct answers are no more than guesses give: exact binomial, one-sided, at `LEVEL`."""
    above = correct / total - 1 / classes
    if above > 0 and math.exp(-2 * total * above**2) < LEVEL:  # a bound on that chance (Hoeffding 1963, theorem 1)
        return False
    from scipy.special import bdtrc  # as long to import as a board takes, and seldom needed

    return bool(bdtrc(correct - 1, total, 1 / classes) >= LEVEL)


def near_chance(correct: int, total: int, classes: int) -> bool:
    """Return whether an accuracy is at chance, or less than a tenth of the way from a guess to 1."""
    return at_chance(correct, total, classes) or correct / total - 1 / classes < MARGIN * (1 - 1 / classes)
