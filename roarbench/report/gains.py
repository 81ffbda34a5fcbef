"""Say what a gain is under each protocol: one place for tables, figures and the board."""

from enum import StrEnum

from roarbench.terms import DIFFROAR, MATCHED, MATCHED_LERF, SPECIFIC_CLASS, Protocol, Retrain


class Height(StrEnum):
    """Label of a chart's vertical axis."""

    ACCURACY = "test accuracy"
    GAIN = "gain over Random, points"
    SPECIFIC = "specific gain, points"
    MATCHED = "matched gain, points"
    DIFFROAR = "DiffROAR, points"


def gain_height(protocol: Protocol) -> Height:
    """Return the label of an axis of gains."""
    if protocol == DIFFROAR:
        return Height.DIFFROAR
    if protocol in (MATCHED, MATCHED_LERF):
        return Height.MATCHED
    return Height.SPECIFIC if protocol.paired else Height.GAIN


def curve_height(protocol: Protocol) -> Height:
    """Return the label of a curve's axis: gain where every level has one, else accuracy."""
    return gain_height(protocol) if protocol.by_difference else Height.ACCURACY


def gain_name(protocol: Protocol) -> str:
    """Return the gain's name within a sentence."""
    if protocol == DIFFROAR:
        return "DiffROAR"
    if protocol in (MATCHED, MATCHED_LERF):
        return "matched gain"
    return "specific gain" if protocol.paired else "gain over Random"


def about_gain(protocol: Protocol) -> str:
    """Describe the gain in sentences; empty where it is the area between two networks' curves."""
    if protocol in _ABOUT:
        return _ABOUT[protocol]
    if protocol.paired:
        return _PAIRED
    return _COMMON if protocol.retrain is Retrain.COMMON else ""


def zero_words(protocol: Protocol) -> str:
    """Return what scores 0, within a sentence."""
    if protocol == DIFFROAR:
        return "a ranking whose two ends are worth the same, such as Random's"
    return "a map that ignores the image, such as Random's" if protocol.paired else "Random"


_PAIRED = (
    "Gain: accuracy with another image's removal mask, by the same row, minus accuracy with the image's own. A map "
    "that ignores the image scores 0. Below 0, the mask itself reveals the image's content."
)
_WITHIN = (
    "Gain: accuracy with the removal mask of another image of the same class, by the same row, minus accuracy with the "
    "image's own. Both masks reveal the class; a map that knows no more of the image scores 0."
)
_DIFFROAR = (
    "Gain: accuracy with the least important features removed (KAR, the accuracies at t) minus accuracy with as many "
    "of the most important ones removed (ROAR), both retrained. Random scores 0, as does any ranking whose two ends "
    "are worth the same."
)
_COMMON = "Gain: over Random's removal masks, on one network trained on other images' masks and tuned on each row's."
_MATCHED = (
    "Gain: accuracy with a matched mask minus accuracy with the image's own mask, on one network. The matched mask "
    "follows another image's map by the same row and changes the image as much: as many features of each stratum of "
    "|x - fill| and its blur. A map that ignores the image, or follows |x - fill| alone, scores 0."
)
_ABOUT = {SPECIFIC_CLASS: _WITHIN, DIFFROAR: _DIFFROAR, MATCHED: _MATCHED, MATCHED_LERF: _MATCHED}
