"""Augmented accuracy: one network scores all rows; it is trained on other images' masks and tuned on each row's."""

from roarbench.enums import Order, ScoredNetwork
from roarbench.protocols.protocol import ON_COMMON, Protocol

AUGMENTED = Protocol(
    name="augmented",
    order=Order.MORF,
    retrain=ScoredNetwork.COMMON,
    title="Augmented",
    tab="More than Random?",
    question="Does a network trained on damaged images lose accuracy without the top-ranked features?",
    method=f"{ON_COMMON} the gain of the row's own masks over Random's, most important features removed",
    dot="Each dot: accuracy points that an estimator's mask costs beyond a random one, on one network used to damaged "
    "images. 0 = Random.",
    meaning="Gain: the area between the curves of Random's removal masks and the row's. Both are scored on one "
    "network, trained on other images' masks and tuned on each row's.",
    limits="Smooth masks cost more than scattered masks, whatever they remove",
    use="For many rows, or gains along the curve; with `matched`",
)
