"""Own-network gain: each of several networks is scored under the maps of all; the gain is the interaction."""

from dataclasses import replace

from roarbench.enums import Order, ScoredNetwork
from roarbench.protocols.protocol import Protocol

_INTERACTION = "does a map hurt the network that it explains more than another network, compared with that one's map"
OWN_NETWORK = Protocol(
    name="own-network",
    order=Order.MORF,
    retrain=ScoredNetwork.SIBLINGS,
    title="Own-network gain",
    tab="This network or another?",
    question="Does the map explain this network rather than another of the same classes?",
    method="score every explained network, not retrained, on images without the features that the map of each network "
    f"ranks first: {_INTERACTION}",
    dot="Two networks explained, four scores: each network under its own map and under the other's. Each dot: how many "
    "more images the networks lose under their *own* maps than under each *other's*, in points. 0 = the map says "
    "nothing about its network.",
    gain="own-network gain",
    meaning="Gain: predictions lost under a network's own maps minus those under others'. It is in points; a map that "
    "is the same for all networks scores 0.",
    zero="a map that does not depend on the network, such as Random's",
    limits="A perfect map scores 0 if all networks use the same features; a search for the mask that breaks one "
    "network scores high; damaged images are unlike the training images",
    use="To judge whether a map explains its network; beside `roar`, which asks about the data",
)
OWN_NETWORK_LERF = replace(
    OWN_NETWORK,
    name="own-network-lerf",
    order=Order.LERF,
    title="Own-network LeRF gain",
    tab="The rest, this network or another?",
    question="Does the map show the features that this network, rather than another, can spare?",
    method="score every explained network, not retrained, on images without the features that the map of each network "
    "ranks last: does a network keep more of its predictions under its own map than under another network's",
    dot="Two networks explained, four scores: each network under its own map and under the other's, without the "
    "features ranked last. Each dot: how many more predictions the networks *keep* under their *own* maps, in points. "
    "0 = the map says nothing about its network.",
    meaning="Gain: predictions kept under a network's own maps minus those under others'. Features that the maps rank "
    "last are removed. It is in points; a map that is the same for all networks scores 0.",
    limits="As `own-network`",
    use="With `own-network`",
)
