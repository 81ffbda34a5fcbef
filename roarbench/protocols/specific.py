"""Specific gain: an image's own mask against another image's mask of the row, on the network of `augmented`."""

from dataclasses import replace

from roarbench.enums import OTHER_IMAGE, SAME_CLASS, Order, ScoredNetwork
from roarbench.protocols.protocol import IGNORES_IMAGE, ON_COMMON, OWN, Protocol

_MASKS = (
    "Both are removal masks by the same row. A map that ignores the image scores 0. Below 0, the mask itself reveals "
    "the image's content."
)
SPECIFIC = Protocol(
    name="specific",
    order=Order.MORF,
    retrain=ScoredNetwork.COMMON,
    against=OTHER_IMAGE,
    title="Specific gain",
    tab="This image or another?",
    question="Does the map fit its image better than the map of another image does?",
    method=f"{ON_COMMON} how much more an image's own mask costs than another image's by the same row",
    dot=f"{OWN}. 0 = the map knows nothing about this image.",
    gain="specific gain",
    meaning=f"Gain: accuracy with another image's mask minus accuracy with the image's own. {_MASKS}",
    zero=IGNORES_IMAGE,
    zeros=("random", "random-blurred", "centre"),
    limits="Features in the same place in every image: the true map scores 0 (`planted-placed`). Maps of outlines have "
    "[negative gains](#what-a-negative-specific-gain-means)",
    use="For a verdict that neither smoothness nor a position prior can earn",
)
SPECIFIC_LERF = replace(
    SPECIFIC,
    name="specific-lerf",
    order=Order.LERF,
    title="Specific LeRF gain",
    meaning=f"Gain: accuracy with the image's own mask minus accuracy with another image's. {_MASKS}",
    tab="The rest, this image or another?",
    question="Does the map know its image's unimportant features better than the map of another image does?",
    method=f"{ON_COMMON} how much less an image's own mask costs than another image's by the same row, least important "
    "features removed",
    dot="A mask removes the features that an estimator ranks last. Each dot: how many accuracy points less an image's "
    "*own* mask costs than the mask of *another* image. 0 = the map knows nothing about this image.",
    limits="As `specific`",
    use="With `specific`",
)
SPECIFIC_CLASS = replace(
    SPECIFIC,
    name="specific-class",
    against=SAME_CLASS,
    title="Specific gain within classes",
    tab="This image within its class?",
    question="Does the map fit its image better than the map of another image of its class does?",
    method=f"{ON_COMMON} how much more an image's own mask costs than that of another image of its class by the same "
    "row, so that both masks reveal the class",
    dot=f"{OWN} of its class. 0 = the map knows nothing about this image but its class.",
    meaning="Gain: accuracy with the mask of an image of its class minus that with its own. Both are removal masks "
    "by the same row, and reveal the class; a map that knows no more of the image scores 0.",
    limits="Features in the same place in all images of a class; an outline that reveals more about the class than its "
    "classmates' outlines lowers the gain",
    use="Where `specific` is negative, or masks reveal the class",
)
