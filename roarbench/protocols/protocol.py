"""What a protocol declares: an order, a network, and the words in which it is shown."""

from dataclasses import dataclass

from roarbench.enums import Order, ScoredNetwork

ACCURACY = "test accuracy"  # label of an axis
ON_COMMON = "on one network for all rows, trained on images with other images' removal masks and tuned on each row's,"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A question asked of a ranking: which end of it is removed, and which network is scored."""

    name: str  # what `--protocol` takes
    order: Order  # which end of the ranking is removed first
    retrain: ScoredNetwork  # which network is scored
    # each image is answered twice, with its own removal mask and with that of another image, which this twin of the row
    # hands it; the gain is the difference. Empty where each image is answered once
    against: str = ""
    # two protocols whose answers are held against each other, the first's minus the second's of the same row, level and
    # seed. Nothing is run for such a protocol. Empty where a suite has cells of its own for it
    made_of: tuple["Protocol", ...] = ()
    title: str  # its name within sentences
    tab: str  # the same in a few words, for tabs of the board
    question: str  # what it asks of an estimator, one sentence
    method: str  # what is done, a sentence without its full stop
    dot: str  # what one dot of a board shows, in sentences; `*` around what is to be stressed
    gain: str = "gain over Random"  # what its gain is called within a sentence; empty where it has none
    meaning: str = "Gain: the area between Random's accuracy curve and the row's."  # what that gain is, in sentences
    zero: str = "Random"  # what has a gain of 0, within a sentence
    zeros: tuple[str, ...] = ()  # controls whose measured gain should be 0; off 0 they are a doubt on the table
    limits: str  # where it fails
    use: str  # when to ask it

    @property
    def about(self) -> str:
        """Return its title with what is done, a sentence without its full stop."""
        return f"{self.title}: {self.method}"

    @property
    def trains(self) -> bool:
        """Return whether the networks that are scored were trained for it."""
        return self.retrain.trains

    @property
    def by_networks(self) -> bool:
        """Return whether every explained network is scored under the maps of each, and the gain is the interaction."""
        return self.retrain is ScoredNetwork.SIBLINGS

    @property
    def has_probabilities(self) -> bool:
        """Return whether its rows have the probability of the class that the explained network predicts."""
        return self.retrain is ScoredNetwork.NONE

    @property
    def paired(self) -> bool:
        """Return whether each image is answered twice."""
        return bool(self.against)

    @property
    def by_difference(self) -> bool:
        """Return whether gains are differences of answers, image by image, so that there is one at every level."""
        return self.retrain is ScoredNetwork.COMMON or self.paired or bool(self.made_of) or self.by_networks

    @property
    def random_is_zero(self) -> bool:
        """Return whether Random's gain is 0 by construction: rows are then held against 0, not against its chance."""
        return self.paired or bool(self.made_of) or self.by_networks

    @property
    def gain_axis(self) -> str:
        """Return the label of an axis of gains."""
        return f"{self.gain}, points"

    @property
    def curve_axis(self) -> str:
        """Return the label of a curve's axis: gain where every level has one, else accuracy."""
        return self.gain_axis if self.by_difference else ACCURACY

    def counterpart(self, estimator: str) -> str:
        """Return the id of the twin that a row is held against, where each image is answered twice."""
        return f"{estimator}~{self.against}"
