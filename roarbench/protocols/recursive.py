"""Recursive ROAR (Madsen et al. 2022): importance is found anew after each removal."""

from roarbench.protocols.declaration import Protocol
from roarbench.terms import Order, Retrain

ROAR_RECURSIVE = Protocol(
    name="roar-recursive",
    order=Order.MORF,
    retrain=Retrain.RECURSIVE,
    title="Recursive ROAR",
    question="Does accuracy fall when importance is found anew after each removal?",
    method="train a new network on what is left at each level, and explain it to choose what to remove next",
    limits="As `roar` where masks reveal the class; a row is no longer one map of one network",
    use="Where features are redundant, so that ROAR's curve stays high until the last of them is gone",
)
