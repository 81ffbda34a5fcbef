"""Define all protocols: the order of removal, the scored network, and texts that describe the protocol.

ROAR and KAR are from Hooker, Erhan, Kindermans, Kim, NeurIPS 2019; DiffROAR is from Shah, Jain, Netrapalli, NeurIPS
2021. Decision 39 in docs/decisions gives the reasons for matched gain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roarbench.common.enums import MATCHED_IMAGE, Order, ScoredNetwork
from roarbench.common.errors import CallerError, RemovedName, UnknownName
from roarbench.common.text import join_with_and

ACCURACY = "test accuracy"  # axis label
_ON_COMMON = (
    "train one network on images with the controls' exchanged removal masks, tune a copy of it for each row on images "
    "with the row's exchanged masks"
)
ORDER_NAMES = {Order.MORF: "MoRF", Order.LERF: "LeRF"}  # most and least relevant first
REMOVED_FIRST = {Order.MORF: "most important", Order.LERF: "least important"}  # features by order of removal
_ROUGHER = "a smooth map can differ from 0 without any information, because its matched masks are rougher"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """An experiment on rankings: which end of the ranking is removed, and which network is then scored."""

    name: str  # value of `--protocol`
    order: Order  # end of the ranking that is removed first
    retrain: ScoredNetwork  # the scored network
    # kind of twin whose masks, made from another image's map, score each image a second time; the gain is the
    # difference of the two scores. Empty for protocols with one score per image
    twin_kind: str = ""
    # two protocols: the score is correctness under the first minus correctness under the second, for the same
    # estimator, level and seed. Empty for protocols with runs of their own
    computed_from: tuple["Protocol", ...] = ()
    title: str  # name in sentences, tables and tabs
    question: str  # question that the protocol answers about an estimator
    method: str  # procedure, in the imperative, without a full stop
    dot_meaning: str  # meaning of a dot on the web page, in sentences; `*` encloses stressed words
    gain_name: str  # name of the gain in sentences, different for each protocol; empty if the protocol has no gain
    gain_meaning: str  # definition, whose first sentence tells orders of removal apart
    # controls whose gain should be 0; a significant gain of one of them is a reason to doubt a table
    zero_gain_controls: tuple[str, ...] = ()

    @property
    def trains(self) -> bool:
        return self.retrain.trains

    @property
    def scores_all_network_pairs(self) -> bool:
        """Return whether each explained network is scored with the maps of every explained network."""
        return self.retrain is ScoredNetwork.SIBLINGS

    @property
    def stores_predicted_probability(self) -> bool:
        return self.retrain is ScoredNetwork.NONE

    @property
    def compares_with_other_image(self) -> bool:
        """Return whether each image is scored under its own mask, and again under a mask from another image's map."""
        return bool(self.twin_kind)

    @property
    def random_is_zero(self) -> bool:
        """Return whether the gain is a difference of correctness per image, so that Random's is 0 by construction.

        Rows are then compared with 0, and every level has a gain.
        """
        return self.compares_with_other_image or bool(self.computed_from) or self.scores_all_network_pairs

    def describe_removal(self, levels: Sequence[float]) -> str:
        """Return levels and order in words: `90 % removed, most important first`; no order if the gain has both."""
        order = "" if self.computed_from else f", {REMOVED_FIRST[self.order]} first"
        return describe_levels(levels) + order

    @property
    def gain_axis(self) -> str:
        return f"{self.gain_name}, points"

    @property
    def curve_axis(self) -> str:
        """Return the label of a curve's axis: the gain if every level has one, otherwise accuracy."""
        return self.gain_axis if self.random_is_zero else ACCURACY

    def make_paired_twin_id(self, estimator: str) -> str:
        """Return the id of the paired twin; each image is scored a second time with the twin's masks."""
        return f"{estimator}~{self.twin_kind}"


ROAR = Protocol(
    name="roar",
    order=Order.MORF,
    retrain=ScoredNetwork.IMAGES,
    title="ROAR",
    question="Does accuracy fall when the network is retrained without the top-ranked features?",
    method="remove the most important features, then train a new network on the remaining features",
    dot_meaning="Each dot: how much further accuracy falls than with a random ranking when the most important features "
    "are removed and a *new network* is trained on the rest. 0 = Random.",
    gain_name="ROAR gain over Random",
    gain_meaning="Gain: area between Random's accuracy curve and the row's, most important first.",
)
KAR = replace(
    ROAR,
    name="kar",
    order=Order.LERF,
    title="KAR",
    question="Does accuracy stay high when the network is retrained on the top-ranked features alone?",
    method="remove the least important features, then train a new network on the remaining features",
    dot_meaning="Each dot: how much higher accuracy is than with a random ranking when only the most important "
    "features are kept and a *new network* is trained on them. 0 = Random.",
    gain_name="KAR gain over Random",
    gain_meaning="Gain: area between Random's accuracy curve and the row's, least important first.",
)
DIFFROAR = Protocol(
    name="diffroar",
    order=Order.LERF,
    retrain=ScoredNetwork.IMAGES,
    computed_from=(KAR, ROAR),
    title="DiffROAR",
    question="Does a new network learn more from the features ranked first than from those ranked last?",
    method="subtract accuracy without the most important features (ROAR) from accuracy without the least important "
    "ones (KAR), both after retraining; no other network is trained",
    dot_meaning="Each dot: accuracy with the least important features removed minus accuracy with the most important "
    "ones removed, both after retraining. 0 = both ends of the ranking are worth the same.",
    gain_name="DiffROAR",
    gain_meaning="Gain: accuracy under KAR (the columns of accuracy) minus accuracy under ROAR. KAR removes the least "
    "important features, ROAR as many of the most important ones, and both retrain a network. The gain is 0 for "
    "Random, and for any ranking whose two ends are worth the same.",
)
MASK_ONLY = Protocol(
    name="mask-only",
    order=Order.MORF,
    retrain=ScoredNetwork.MASKS,
    title="Mask-only",
    question="Do the masks reveal the class without any image?",
    method="train a network on removal masks alone, which show where features were removed but nothing of the image",
    dot_meaning="Each dot: accuracy of networks trained on removal masks alone, which show *where* features were "
    "removed but nothing of the image. There is no gain and no rank; a lower accuracy means that masks reveal the "
    "class less.",
    gain_name="",
    gain_meaning="",
)
MORF = Protocol(
    name="morf",
    order=Order.MORF,
    retrain=ScoredNetwork.NONE,
    title="MoRF",
    question="Does the explained network lose accuracy without the top-ranked features?",
    method="remove the most important features and score the explained network, without retraining it",
    dot_meaning="Each dot: how much further accuracy falls than with a random ranking when the most important features "
    "are removed and the *same network* is tested. It was never trained on such images. 0 = Random.",
    gain_name="MoRF gain over Random",
    gain_meaning="Gain: area between Random's accuracy curve and the row's, most important first.",
)
LERF = replace(
    MORF,
    name="lerf",
    order=Order.LERF,
    title="LeRF",
    question="Does the explained network keep its accuracy on the top-ranked features alone?",
    method="remove the least important features and score the explained network, without retraining it",
    dot_meaning="Each dot: how much higher accuracy is than with a random ranking when the least important features "
    "are removed and the *same network* is tested. It was never trained on such images. 0 = Random.",
    gain_name="LeRF gain over Random",
    gain_meaning="Gain: area between Random's accuracy curve and the row's, least important first.",
)
OWN_NETWORK = Protocol(
    name="own-network",
    order=Order.MORF,
    retrain=ScoredNetwork.SIBLINGS,
    title="Own-network gain",
    question="Does the map explain this network rather than a different one trained on the same classes?",
    method="score every explained network, without retraining it, on images without the features that the map of each "
    "network ranks first, and compare how many predictions change after removal by a network's own map and by "
    "another's",
    dot_meaning="Two explained networks give four scores: each is tested after removal by its own map and by the "
    "other's. Each dot: how many more predictions change with a network's *own* map than with *another's*, in points. "
    "0 = the map shows nothing that is specific to its network.",
    gain_name="own-network gain",
    gain_meaning="Gain: predictions changed by own map minus by others, most important removed. Both numbers are in "
    "percent of the predictions; a map that is the same for all networks has a gain of 0.",
)
OWN_NETWORK_LERF = replace(
    OWN_NETWORK,
    name="own-network-lerf",
    order=Order.LERF,
    title="Own-network LeRF gain",
    question="Does the map show which features this network, but not another, can do without?",
    method="score every explained network, without retraining it, on images without the features that the map of each "
    "network ranks last, and compare how many predictions stay the same with a network's own map and with another's",
    dot_meaning="Two explained networks give four scores: each is tested without the features that its own map ranks "
    "last, and without those that the other's ranks last. Each dot: how many more predictions *stay the same* with a "
    "network's *own* map, in points. 0 = the map shows nothing that is specific to its network.",
    gain_name="own-network LeRF gain",
    gain_meaning="Gain: predictions kept by own map minus by others, least important removed. Both numbers are in "
    "percent of the predictions; a map that is the same for all networks has a gain of 0.",
)
MATCHED = Protocol(
    name="matched",
    order=Order.MORF,
    retrain=ScoredNetwork.COMMON,
    twin_kind=MATCHED_IMAGE,
    title="Matched gain",
    question="Does the map say more about its image than |x - fill| does?",
    method=f"{_ON_COMMON}, and compare its accuracy under an image's own mask with that under a mask that follows "
    "another image's map and changes the image as much",
    dot_meaning="A mask removes the features that an estimator ranks first. Each dot: how much further accuracy falls "
    "with an image's *own* mask than with a mask that follows the map of *another* image and changes this image as "
    f"much. 0 = the map shows nothing about this image beyond its contrast; {_ROUGHER}.",
    gain_name="matched gain",
    gain_meaning="Gain: accuracy under a matched mask minus accuracy under the image's own mask. Both are scored by "
    "one network. The matched mask follows the row's map of another image and changes the image as much: it removes as "
    "many features of each stratum of |x - fill| and its blur. A map that ignores the image, or follows |x - fill| "
    f"alone, should have gain 0; but {_ROUGHER}.",
    zero_gain_controls=("random", "random-blurred", "centre", "deviation"),
)


def describe_levels(levels: Sequence[float]) -> str:
    """Return levels in words: `5 and 50 % removed`; more than three as a range, `10 to 90 % removed`."""
    percentages = [f"{100 * t:g}" for t in levels]
    shown = join_with_and(percentages) if len(percentages) <= 3 else f"{percentages[0]} to {percentages[-1]}"
    return f"{shown} % removed"


# protocols with tables, by scored network, then by order of removal; computed protocols come last
_BY_NETWORK = (ROAR, KAR, MASK_ONLY, MORF, LERF, MATCHED, OWN_NETWORK, OWN_NETWORK_LERF)
SHOWN = {protocol.name: protocol for protocol in (*_BY_NETWORK, DIFFROAR)}
PROTOCOLS = {name: protocol for name, protocol in SHOWN.items() if not protocol.computed_from}  # protocols with runs
# protocols of which stores may have rows; nothing computes or shows them
REMOVED_PROTOCOLS = {"augmented", "roar-exchanged"}


def has_opposite_order(protocol: Protocol) -> bool:
    """Return whether another protocol scores the same network and removes the other end of the ranking first."""
    if protocol.computed_from:
        return False
    return any(other.retrain is protocol.retrain and other.order != protocol.order for other in PROTOCOLS.values())


def find_protocol(name: str) -> Protocol:
    """Return the protocol of this name; raise CallerError if it is unknown or has no runs of its own."""
    if name in REMOVED_PROTOCOLS:
        raise RemovedName("protocol", name)
    if name in SHOWN and (parts := [part.name for part in SHOWN[name].computed_from]):
        seen = f"{name} is computed from the results of {' and '.join(parts)} and has no runs of its own"
        raise CallerError(f"{seen}; run these protocols, then `roarbench table --protocol {name}` shows the results")
    if name not in PROTOCOLS:
        raise UnknownName("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]


def find_network_scored_without_removal(retrain: ScoredNetwork, fill: str) -> tuple[ScoredNetwork, str] | None:
    """Return the kind of network that is scored at t = 0 and the fill of its cell; None if networks see only masks."""
    if retrain is ScoredNetwork.MASKS:
        return None
    return retrain, fill if retrain is ScoredNetwork.COMMON else "mean"
