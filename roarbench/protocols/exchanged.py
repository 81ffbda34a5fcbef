"""ROAR where training images carry the masks of other images, so that no mask was tied to a class."""

from roarbench.enums import Order, ScoredNetwork
from roarbench.protocols.protocol import Protocol

ROAR_EXCHANGED = Protocol(
    name="roar-exchanged",
    order=Order.MORF,
    retrain=ScoredNetwork.EXCHANGED,
    title="ROAR exchanged",
    tab="ROAR, masks exchanged",
    question="Does accuracy fall without the top-ranked features when training masks are swapped between images?",
    method="train a new network on images with other images' removal masks, test it on each image's own",
    dot="Each dot: how much further accuracy falls than with a random ranking when the most important features are "
    "removed and a *new network* is trained on what other images' masks leave. 0 = Random.",
    limits="Training and test differ: a mask hides evidence at test time alone; a network may learn that a class whose "
    "evidence is hidden is likelier",
    use="Where masks alone score high",
)
