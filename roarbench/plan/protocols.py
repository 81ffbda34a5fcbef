"""All protocols: for each, the order of removal, the scored network, and the texts that describe it.

ROAR and KAR are from Hooker, Erhan, Kindermans, Kim, NeurIPS 2019; DiffROAR is from Shah, Jain, Netrapalli, NeurIPS
2021. Decision 39 in docs/decisions gives the reasons for matched gain.
"""

from dataclasses import dataclass, replace

from roarbench.enums import MATCHED_IMAGE, Order, ScoredNetwork

ACCURACY = "test accuracy"  # axis label
ON_COMMON = "on one network for all rows, trained on images with other images' removal masks and tuned on each row's,"
_INTERACTION = "does a map hurt the network that it explains more than another network, compared with that one's map"
_ROUGHER = "a smooth map is off 0 whatever it knows, because its matched masks are rougher"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A question about rankings: which end of the ranking is removed, and which network is scored."""

    name: str  # value of `--protocol`
    order: Order  # end of the ranking that is removed first
    retrain: ScoredNetwork  # the scored network
    # twin whose masks, from another image, score each image a second time; the gain is the difference. Empty for
    # protocols with one score per image
    against: str = ""
    # two protocols: the score is the first's correctness minus the second's, for the same row, level and seed. No run
    # belongs to such a protocol. Empty for protocols with runs of their own
    made_of: tuple["Protocol", ...] = ()
    title: str  # name in a sentence
    tab: str  # short name, for tabs of the board
    question: str  # the question about an estimator, one sentence
    method: str  # the procedure, a sentence without full stop
    dot: str  # meaning of a dot on the board, in sentences; `*` encloses stressed words
    gain: str = "gain over Random"  # name of the gain in a sentence; empty without a gain
    meaning: str = "Gain: the area between Random's accuracy curve and the row's."  # meaning of the gain, in sentences
    zero: str = "Random"  # name of the zero gain in a sentence
    zeros: tuple[str, ...] = ()  # controls whose measured gain should be 0; another gain is a reason to doubt the table
    limits: str  # known failures
    use: str  # purpose

    @property
    def about(self) -> str:
        """Return the title and method as a sentence without a full stop."""
        return f"{self.title}: {self.method}"

    @property
    def trains(self) -> bool:
        """Return whether networks are trained for scoring."""
        return self.retrain.trains

    @property
    def by_networks(self) -> bool:
        """Return whether every explained network is scored with every network's maps; the gain is their interaction."""
        return self.retrain is ScoredNetwork.SIBLINGS

    @property
    def has_probabilities(self) -> bool:
        """Return whether rows store the probability of the predicted class."""
        return self.retrain is ScoredNetwork.NONE

    @property
    def paired(self) -> bool:
        """Return whether each image is scored twice."""
        return bool(self.against)

    @property
    def by_difference(self) -> bool:
        """Return whether gains are differences of correctness per image, so that every level has a gain."""
        return self.retrain is ScoredNetwork.COMMON or self.paired or bool(self.made_of) or self.by_networks

    @property
    def random_is_zero(self) -> bool:
        """Return whether Random's gain is 0 by construction; rows are then compared with 0."""
        return self.paired or bool(self.made_of) or self.by_networks

    @property
    def gain_axis(self) -> str:
        """Return the label of an axis of gains."""
        return f"{self.gain}, points"

    @property
    def curve_axis(self) -> str:
        """Return the label of a curve's axis: the gain if every level has one, otherwise accuracy."""
        return self.gain_axis if self.by_difference else ACCURACY

    def counterpart(self, estimator: str) -> str:
        """Return the id of the twin whose masks score each image a second time."""
        return f"{estimator}~{self.against}"


ROAR = Protocol(
    name="roar",
    order=Order.MORF,
    retrain=ScoredNetwork.IMAGES,
    title="ROAR",
    tab="ROAR (2019)",
    question="Does accuracy fall when the network is retrained without the top-ranked features?",
    method="remove the most important features, then train a new network on what is left",
    dot="Each dot: how much further accuracy falls than with a random ranking when the most important features are "
    "removed and a *new network* is trained on what is left. 0 = Random.",
    limits="If masks reveal the class, the better map has the lower gain; smooth masks also hide shapes beyond the "
    "removed pixels; redundant features replace each other",
    use="To compare with the paper; with `mask-only` and blurred twins",
)
KAR = replace(
    ROAR,
    name="kar",
    order=Order.LERF,
    title="KAR",
    tab="Keep and retrain",
    question="Does accuracy stay high when the network is retrained on the top-ranked features alone?",
    method="remove the least important features, then train a new network on what is left",
    dot="Each dot: how much more accuracy stays than with a random ranking when only the most important features are "
    "kept and a *new network* is trained on them. 0 = Random.",
    limits="Masks that reveal the class are rewarded: a map that encodes only the class has the highest gain",
    use="With `roar`, to see whether both orders agree",
)
DIFFROAR = Protocol(
    name="diffroar",
    order=Order.LERF,
    retrain=ScoredNetwork.IMAGES,
    made_of=(KAR, ROAR),
    title="DiffROAR",
    tab="DiffROAR",
    question="Does a new network learn more from the features ranked first than from those ranked last?",
    method="KAR minus ROAR, accuracy without the least important features minus accuracy without the most important "
    "ones; nothing is trained for it",
    dot="Each dot: accuracy with the least important features removed minus accuracy with the most important ones "
    "removed, both retrained. 0 = both ends of the ranking are worth the same.",
    gain="DiffROAR",
    meaning="Gain: accuracy under KAR, the accuracies at t, minus accuracy under ROAR. As many features are removed, "
    "the least and the most important ones, and both networks are retrained. Random scores 0, as does any ranking "
    "whose two ends are worth the same.",
    zero="a ranking whose two ends are worth the same, such as Random's",
    limits="As `roar` and `kar`: masks may reveal the class",
    use="If there are no controls; to compare with Shah et al. 2021",
)


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
    limits="There is no gain; a network that also sees the image may ignore the mask",
    use="To check a verdict of `roar` or `kar`",
)


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
    limits="Damaged images are unlike the training images; smooth and scattered masks harm the network differently",
    use="To find errors in seconds; measures faithfulness to one network, not to the data",
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


OWN_NETWORK = Protocol(
    name="own-network",
    order=Order.MORF,
    retrain=ScoredNetwork.SIBLINGS,
    title="Own-network gain",
    tab="This network or another?",
    question="Does the map explain this network rather than a different one trained on the same classes?",
    method="score every explained network, not retrained, on images without the features that the map of each network "
    f"ranks first: {_INTERACTION}",
    dot="Two networks explained, four scores: each network under its own map and under the other's. Each dot: how many "
    "more images the networks lose under their *own* maps than under each *other's*, in points. 0 = the map says "
    "nothing about its network.",
    gain="own-network gain",
    meaning="Gain: predictions lost under a network's own maps minus those under others'. It is in points; a map that "
    "is the same for all networks scores 0.",
    zero="a map that does not depend on the network, such as Random's",
    limits="A perfect map has gain 0 if all networks use the same features; a search for the mask that harms only one "
    "network has a high gain; damaged images are unlike the training images",
    use="To test whether a map explains its network",
)
OWN_NETWORK_LERF = replace(
    OWN_NETWORK,
    name="own-network-lerf",
    order=Order.LERF,
    title="Own-network LeRF gain",
    tab="The rest, this network or another?",
    question="Does the map show which features this network, rather than a different one, does not need?",
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
    limits="Smooth masks lower accuracy more than scattered masks, whatever they remove",
    use="For many estimators, or gains at single levels; with `matched`",
)


MATCHED = Protocol(
    name="matched",
    order=Order.MORF,
    retrain=ScoredNetwork.COMMON,
    against=MATCHED_IMAGE,
    title="Matched gain",
    tab="What can only a network know?",
    question="Is the map more specific to its image than |x - fill| is?",
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
    limits="The true map has gain 0 if important features are in the same place in every image, or if importance is a "
    "function of |x - fill|; smooth maps that ignore the image have about one point",
    use="To test whether a map beats every control that sees at most the network's predicted class",
)


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
    limits="Masks hide an image's own evidence only at test time; a network may learn that a class is more likely "
    "if its evidence is hidden",
    use="If mask-only networks have high accuracy",
)


def _position(protocol: Protocol) -> tuple[bool, int, int, str]:
    """Return a protocol's position in lists: by the scored network, then by the order of removal."""
    networks, ends = list(ScoredNetwork), list(Order)
    return bool(protocol.made_of), networks.index(protocol.retrain), ends.index(protocol.order), protocol.name


_DECLARED = (
    ROAR,
    KAR,
    DIFFROAR,
    MASK_ONLY,
    MORF,
    LERF,
    OWN_NETWORK,
    OWN_NETWORK_LERF,
    AUGMENTED,
    MATCHED,
    ROAR_EXCHANGED,
)
SHOWN = {protocol.name: protocol for protocol in sorted(_DECLARED, key=_position)}  # protocols with tables
PROTOCOLS = {name: protocol for name, protocol in SHOWN.items() if not protocol.made_of}  # protocols with runs
