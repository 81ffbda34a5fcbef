"""What a gain is under each protocol, in words: one place for tables, pictures and the board."""

from enum import StrEnum

from roarbench.terms import DIFFROAR, MATCHED, MATCHED_LERF, SPECIFIC_CLASS, Protocol, Retrain


class Height(StrEnum):
    """Words on the vertical axis of a chart."""

    ACCURACY = "test accuracy"
    GAIN = "gain over Random, points"
    SPECIFIC = "specific gain, points"
    MATCHED = "matched gain, points"
    DIFFROAR = "DiffROAR, points"


def gain_height(protocol: Protocol) -> Height:
    """Return the words on an axis of gains."""
    if protocol == DIFFROAR:
        return Height.DIFFROAR
    if protocol in (MATCHED, MATCHED_LERF):
        return Height.MATCHED
    return Height.SPECIFIC if protocol.paired else Height.GAIN


def curve_height(protocol: Protocol) -> Height:
    """Return the words on the axis of a curve: where gains are differences of answers, every level has one."""
    return gain_height(protocol) if protocol.by_difference else Height.ACCURACY


def gain_name(protocol: Protocol) -> str:
    """Return what the gain is called within a sentence."""
    if protocol == DIFFROAR:
        return "DiffROAR"
    if protocol in (MATCHED, MATCHED_LERF):
        return "matched gain"
    return "specific gain" if protocol.paired else "gain over Random"


def about_gain(protocol: Protocol) -> str:
    """Return what a gain is, in sentences, where it is not the area between two networks' curves; else nothing."""
    if protocol in _ABOUT:
        return _ABOUT[protocol]
    if protocol.paired:
        return _PAIRED
    return _COMMON if protocol.retrain is Retrain.COMMON else ""


def zero_words(protocol: Protocol) -> str:
    """Return what has a gain of 0, within a sentence."""
    if protocol == DIFFROAR:
        return "a ranking whose two ends tell the same, such as Random's"
    return "a map that ignores the image, such as Random's" if protocol.paired else "Random"


_PAIRED = (
    "Gain: what an image's own removed-map costs the network more than that of another image by the same row. "
    "A map that ignores the image has 0, Random above all; below 0 the map draws the image, and the network reads "
    "the drawing."
)
_WITHIN = (
    "Gain: what an image's own removed-map costs the network more than that of another image of the same class by the "
    "same row. Both masks tell the class; a map that knows no more of the image has 0."
)
_DIFFROAR = (
    "Gain: accuracy with the least important features removed (KAR, whose accuracies stand at t) minus that with as "
    "many of the most important ones removed (ROAR), both retrained (DiffROAR). A ranking whose two ends tell the same "
    "has 0, Random above all."
)
_COMMON = "Gain: against Random's removed-maps on one network, trained on other images' maps and tuned on each row's."
_MATCHED = (
    "Gain: accuracy with a matched mask minus accuracy with the image's own mask, on one network. The matched mask "
    "follows another image's map by the same row and changes the image as much: as many features of each stratum of "
    "|x - fill| and its blur. A map that ignores the image, or follows |x - fill| alone, scores 0."
)
_ABOUT = {SPECIFIC_CLASS: _WITHIN, DIFFROAR: _DIFFROAR, MATCHED: _MATCHED, MATCHED_LERF: _MATCHED}
