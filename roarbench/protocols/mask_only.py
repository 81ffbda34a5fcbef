"""Mask-only: what the shape of the masks alone tells of the class."""

from roarbench.enums import Order, ScoredNetwork
from roarbench.protocols.protocol import Protocol

MASK_ONLY = Protocol(
    name="mask-only",
    order=Order.MORF,
    retrain=ScoredNetwork.MASKS,
    title="Mask-only",
    tab="What masks alone tell",
    question="Do the masks reveal the class without any image?",
    method="a network that sees only where features were removed, never an image",
    dot="Each dot: accuracy of networks that see only *where* features were removed, never an image. No gain and no "
    "place: a smaller number is less of a leak.",
    gain="",
    meaning="",
    zero="",
    limits="No gain: a network that also sees the image need not read the mask",
    use="Before a verdict of `roar` or `kar` is believed",
)
