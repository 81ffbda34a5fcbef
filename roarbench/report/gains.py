"""What a gain is under each protocol, in words: one place for tables, pictures and the board."""

from enum import StrEnum

from roarbench.terms import SPECIFIC_CLASS, Protocol, Retrain


class Height(StrEnum):
    """Words on the vertical axis of a chart."""

    ACCURACY = "test accuracy"
    GAIN = "gain over Random, points"
    SPECIFIC = "specific gain, points"


def gain_height(protocol: Protocol) -> Height:
    """Return the words on an axis of gains."""
    return Height.SPECIFIC if protocol.paired else Height.GAIN


def curve_height(protocol: Protocol) -> Height:
    """Return the words on the axis of a curve: where common networks answer, every level has a gain."""
    return gain_height(protocol) if protocol.retrain is Retrain.COMMON else Height.ACCURACY


def gain_name(protocol: Protocol) -> str:
    """Return what the gain is called within a sentence."""
    return "specific gain" if protocol.paired else "gain over Random"


def about_gain(protocol: Protocol) -> str:
    """Return what a gain is, in sentences, where it is not the area between two networks' curves; else nothing."""
    if protocol == SPECIFIC_CLASS:
        return _WITHIN
    if protocol.paired:
        return _PAIRED
    return _COMMON if protocol.retrain is Retrain.COMMON else ""


def zero_words(protocol: Protocol) -> str:
    """Return what has a gain of 0, within a sentence."""
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
_COMMON = "Gain: against Random's removed-maps on one network, trained on other images' maps and tuned on each row's."
