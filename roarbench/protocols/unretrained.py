"""MoRF and LeRF: the explained network itself, as it is (Samek et al. 2017)."""

from dataclasses import replace

from roarbench.protocols.declaration import Protocol
from roarbench.terms import Order, Retrain

MORF = Protocol(
    name="morf",
    order=Order.MORF,
    retrain=Retrain.NONE,
    title="MoRF",
    tab="Without retraining",
    question="Does the explained network lose accuracy at once without it?",
    method="remove the most important features and score the reference as it is, not retrained",
    dot="Each dot: how much further accuracy falls than with a random ranking when the most important features are "
    "removed and the *same network* answers. It never saw such images. 0 = Random.",
    limits="Degraded images are unlike all that the network was trained on; it fails for that, too, and differently "
    "for smooth and scattered masks",
    use="In seconds, to find errors; as a faithfulness score of one network, not of the data",
)
LERF = replace(
    MORF,
    name="lerf",
    order=Order.LERF,
    title="LeRF",
    tab="The rest, without retraining",
    question="Does the explained network keep its accuracy on it alone?",
    method="remove the least important features and score the reference as it is, not retrained",
    dot="Each dot: how much more accuracy stays than with a random ranking when the least important features are "
    "removed and the *same network* answers. It never saw such images. 0 = Random.",
    limits="As `morf`",
    use="With `morf`",
)
