"""How networks do on untouched images, in words: beside a guess nothing else means anything."""

from collections.abc import Sequence

from roarbench.stats import guessing
from roarbench.store.result import Result

NEAR_CHANCE = "near chance"  # of a reference: its maps explain a network that knows next to nothing


def at_chance(networks: Sequence[Result], classes: int) -> str:
    """Say, as a sentence, that networks do no better than a guess by their mean accuracy; empty if they do."""
    if not networks:
        return ""
    correct, total = sum(result.correct for result in networks) / len(networks), networks[0].total
    if not guessing.at_chance(int(correct), total, classes):
        return ""
    seen = f"{correct / total:.1%} of {total:,} untouched test images are answered correctly"
    return f"At chance: {seen}, a guess is right on {1 / classes:.1%}. These numbers test the installation only."


def told(references: Sequence[Result], classes: int) -> str:
    """Return the accuracies of references, and whether one is hardly better than a guess."""
    near = any(guessing.near_chance(row.correct, row.total, classes) for row in references)
    each = ", ".join(f"{row.correct / row.total:.1%}" for row in references)
    name = f"{len(references)} references" if len(references) > 1 else "reference"
    return f"{name} {each} correct" + (f", {NEAR_CHANCE} ({1 / classes:.1%})" if near else "")
