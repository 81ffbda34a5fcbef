"""ROAR, keep and retrain (KAR), and their difference: a new network for each row, level and seed.

Hooker, Erhan, Kindermans, Kim, NeurIPS 2019; DiffROAR is of Shah, Jain, Netrapalli, NeurIPS 2021.
"""

from dataclasses import replace

from roarbench.enums import Order, ScoredNetwork
from roarbench.protocols.protocol import Protocol

ROAR = Protocol(
    name="roar",
    order=Order.MORF,
    retrain=ScoredNetwork.IMAGES,
    title="ROAR",
    tab="ROAR (2019)",
    question="Does accuracy fall when the network is retrained without the top-ranked features?",
    method="remove the most important features, then train a new network on what is left",
    dot="Each dot: how much further accuracy falls than with a random ranking when the most important features are "
    "removed and a *new network* is trained on what is left. 0 = Random.",
    limits="Masks reveal the class, and the better map loses; smooth masks erase more shape than the removed pixels "
    "carry; redundant features hide each other",
    use="To compare with the paper; with `mask-only` and blurred twins",
)
KAR = replace(
    ROAR,
    name="kar",
    order=Order.LERF,
    title="KAR",
    tab="Keep and retrain",
    question="Does accuracy stay when the network is retrained on the top-ranked features alone?",
    method="remove the least important features, then train a new network on what is left",
    dot="Each dot: how much more accuracy stays than with a random ranking when only the most important features are "
    "kept and a *new network* is trained on them. 0 = Random.",
    limits="Masks that reveal the class are rewarded: a map that knows the class alone wins",
    use="With `roar`: do both orders agree?",
)
DIFFROAR = Protocol(
    name="diffroar",
    order=Order.LERF,
    retrain=ScoredNetwork.IMAGES,
    made_of=(KAR, ROAR),
    title="DiffROAR",
    tab="DiffROAR",
    question="Do the features ranked first tell a new network more than those ranked last?",
    method="KAR minus ROAR, accuracy without the least important features minus accuracy without the most important "
    "ones; nothing is trained for it",
    dot="Each dot: accuracy with the least important features removed minus accuracy with the most important ones "
    "removed, both retrained. 0 = both ends of the ranking are worth the same.",
    gain="DiffROAR",
    meaning="Gain: accuracy under KAR, the accuracies at t, minus accuracy under ROAR. As many features are removed, "
    "the least and the most important ones, and both networks are retrained. Random scores 0, as does any ranking "
    "whose two ends are worth the same.",
    zero="a ranking whose two ends are worth the same, such as Random's",
    limits="As `roar` and `kar`: masks reveal the class",
    use="Without controls; to compare with Shah et al. 2021",
)
