"""Matched gain: an image's own mask against one that follows another image's map and changes the image as much.

Decision 39 in docs/decisions says why.
"""

from roarbench.enums import MATCHED_IMAGE, Order, ScoredNetwork
from roarbench.protocols.protocol import ON_COMMON, Protocol

_ROUGHER = "a smooth map is off 0 whatever it knows, because its matched masks are rougher"
MATCHED = Protocol(
    name="matched",
    order=Order.MORF,
    retrain=ScoredNetwork.COMMON,
    against=MATCHED_IMAGE,
    title="Matched gain",
    tab="What can only a network know?",
    question="Does the map know more about its image than |x - fill| shows?",
    method=f"{ON_COMMON} how much more an image's own mask costs than a mask that follows another image's map and "
    "changes the image as much",
    dot="A mask removes the features that an estimator ranks first. Each dot: how many accuracy points more an image's "
    "*own* mask costs than the mask of *another* image, matched to change this one as much. 0 = the map knows nothing "
    f"about this image beyond its contrast; {_ROUGHER}.",
    gain="matched gain",
    meaning="Gain: accuracy with a matched, rougher mask minus that with the image's own. Both are scored on one "
    "network. The matched mask follows another image's map by the same row and changes the image as much: as many "
    "features of each stratum of |x - fill| and its blur. A map that ignores the image, or follows |x - fill| alone, "
    f"should have 0; {_ROUGHER}.",
    zero="a map that ignores the image, such as Random's",
    zeros=("random", "random-blurred", "centre", "deviation"),
    limits="The true map scores 0 where features are in the same place in every image, or importance is a function of "
    "|x - fill|; a smooth map that ignores the image keeps about a point",
    use="To judge whether a map beats every control that sees at most the network's predicted class",
)
