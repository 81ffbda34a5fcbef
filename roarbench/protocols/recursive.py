"""Recursive ROAR (Madsen et al. 2022): importance is found anew after each removal."""

from roarbench.enums import Order, ScoredNetwork
from roarbench.protocols.protocol import Protocol

ROAR_RECURSIVE = Protocol(
    name="roar-recursive",
    order=Order.MORF,
    retrain=ScoredNetwork.RECURSIVE,
    title="Recursive ROAR",
    tab="ROAR, explained anew",
    question="Does accuracy fall when each removal follows a map of the newly trained network?",
    method="train a new network on what is left at each level, and explain it to choose what to remove next",
    dot="Each dot: how much further accuracy falls than with a random ranking when the most important features are "
    "removed and a *new network* is trained on what is left, level by level. 0 = Random.",
    limits="As `roar` where masks reveal the class; a row is no longer one map of one network",
    use="Where features are redundant, and ROAR's curve stays high until the last is gone",
)
