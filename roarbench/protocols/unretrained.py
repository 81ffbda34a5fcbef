"""MoRF and LeRF: the explained network itself, as it is (Samek et al. 2017)."""

from dataclasses import replace

from roarbench.enums import Order, ScoredNetwork
from roarbench.protocols.protocol import Protocol

MORF = Protocol(
    name="morf",
    order=Order.MORF,
    retrain=ScoredNetwork.NONE,
    title="MoRF",
    tab="Without retraining",
    question="Does the explained network lose accuracy without the top-ranked features?",
    method="remove the most important features and score the reference as it is, not retrained",
    dot="Each dot: how much further accuracy falls than with a random ranking when the most important features are "
    "removed and the *same network* answers. It never saw such images. 0 = Random.",
    limits="Damaged images are unlike the training images; smooth and scattered masks break the network differently",
    use="To find errors in seconds; faithfulness to one network, not to the data",
)
LERF = replace(
    MORF,
    name="lerf",
    order=Order.LERF,
    title="LeRF",
    tab="The rest, without retraining",
    question="Does the explained network keep its accuracy on the top-ranked features alone?",
    method="remove the least important features and score the reference as it is, not retrained",
    dot="Each dot: how much more accuracy stays than with a random ranking when the least important features are "
    "removed and the *same network* answers. It never saw such images. 0 = Random.",
    limits="As `morf`",
    use="With `morf`",
)
