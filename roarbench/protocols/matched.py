"""Matched gain: an image's own mask against one that follows another image's map and changes the image as much.

On the network of `specific` (docs/decisions/0039).
"""

from roarbench.enums import MATCHED_IMAGE, Order, ScoredNetwork
from roarbench.protocols.protocol import IGNORES_IMAGE, ON_COMMON, OWN, Protocol

_OTHER = "than a mask that follows another image's map and changes the image as much"
_ROUGHER = "a smooth map is off 0 whatever it knows, because its matched masks are rougher"
_MATCHED = (
    "Both are scored on one network. The matched mask follows another image's map by the same row and changes the "
    "image as much: as many features of each stratum of |x - fill| and its blur. A map that ignores the image, or "
    f"follows |x - fill| alone, should have 0; {_ROUGHER}."
)
MATCHED = Protocol(
    name="matched",
    order=Order.MORF,
    retrain=ScoredNetwork.COMMON,
    against=MATCHED_IMAGE,
    title="Matched gain",
    tab="What can only a network know?",
    question="Does the map know more about its image than |x - fill| shows?",
    method=f"{ON_COMMON} how much more an image's own mask costs {_OTHER}",
    dot=f"{OWN}, matched to change this one as much. 0 = the map knows nothing about this image beyond its contrast; "
    f"{_ROUGHER}.",
    gain="matched gain",
    meaning=f"Gain: accuracy with a matched, rougher mask minus that with the image's own. {_MATCHED}",
    zero=IGNORES_IMAGE,
    zeros=("random", "random-blurred", "centre", "deviation"),
    limits="As `specific`; where the truth is a function of |x - fill|; a smooth map that ignores the image keeps "
    "about a point",
    use="To judge whether a map beats every control that sees at most the network's predicted class",
)
