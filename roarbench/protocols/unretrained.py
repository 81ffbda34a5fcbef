"""MoRF and LeRF: the explained network itself, as it is (Samek et al. 2017)."""

from dataclasses import replace

from roarbench.protocols.declaration import Protocol
from roarbench.terms import Order, Retrain

MORF = Protocol(
    name="morf",
    order=Order.MORF,
    retrain=Retrain.NONE,
    title="MoRF",
    question="Does the explained network lose accuracy at once without it?",
    method="remove the most important features and score the reference as it is, not retrained",
    limits="Degraded images are unlike all that the network was trained on; it fails for that, too, and differently "
    "for smooth and scattered masks",
    use="In seconds, to find errors; as a faithfulness score of one network, not of the data",
)
LERF = replace(
    MORF,
    name="lerf",
    order=Order.LERF,
    title="LeRF",
    question="Does the explained network keep its accuracy on it alone?",
    method="remove the least important features and score the reference as it is, not retrained",
    limits="As `morf`",
    use="Beside `morf`",
)
