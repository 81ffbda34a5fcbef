"""Hold the words of the pages: questions that protocols ask, and where to read on."""

from roarbench.protocols import SHOWN

REPOSITORY = "https://github.com/roarbench/roarbench"
ADVICE = "Results come with roarbench run --suite quick-matched --store STORE; open the board on the same store."
QUESTIONS = {  # by protocol: what its tab says
    "matched": "This image, contrast aside?",
    "specific": "This image or another?",
    "specific-class": "This image within its class?",
    "roar": "ROAR (2019)",
    "kar": "Keep and retrain",
    "augmented": "More than Random?",
    "morf": "Without retraining",
    "lerf": "The rest, without retraining",
    "mask-only": "What masks alone tell",
    "diffroar": "DiffROAR",
}
_OWN = "Each dot: accuracy points lost when an estimator’s <b>own</b> mask replaces its mask of <b>another</b> image"
LEDES = {  # by protocol: what one dot is; HTML of ours
    "matched": f"{_OWN} that changes it as much. 0 = knows nothing about this image beyond its contrast.",
    "specific": f"{_OWN}. 0 = knows nothing about this image.",
    "specific-class": f"{_OWN} of its class. 0 = knows nothing about this image but its class.",
    "roar": "Each dot: how much further accuracy falls than with a random ranking when the most important features are "
    "removed and a <b>new network</b> is trained on what is left. 0 = Random.",
    "kar": "Each dot: how much more accuracy stays than with a random ranking when only the most important features "
    "are kept and a <b>new network</b> is trained on them. 0 = Random.",
    "morf": "Each dot: how much further accuracy falls than with a random ranking when the most important features are "
    "removed and the <b>same network</b> answers. It never saw such images. 0 = Random.",
    "lerf": "Each dot: how much more accuracy stays than with a random ranking when the least important features are "
    "removed and the <b>same network</b> answers. It never saw such images. 0 = Random.",
    "augmented": "Each dot: accuracy points that an estimator’s mask costs beyond a random one, on one network used "
    "to damaged images. 0 = Random.",
    "mask-only": "Each dot: accuracy of networks that see only <b>where</b> features were removed, never an image. No "
    "gain and no place: a smaller number is less of a leak.",
    "diffroar": "Each dot: accuracy with the least important features removed minus accuracy with the most important "
    "ones removed, both retrained. 0 = both ends of the ranking are worth the same.",
}


def question(protocol: str) -> str:
    """Return the question that a protocol asks, for its tab."""
    return QUESTIONS.get(protocol) or protocol.replace("-", " ").capitalize()


def lede(protocol: str) -> str:
    """Return what one dot of a board shows, as HTML of ours."""
    found = LEDES.get(protocol) or LEDES.get(protocol.removesuffix("-lerf"))
    if found:
        return found
    kind = SHOWN[protocol]
    return LEDES["kar" if kind.order == "lerf" else "roar"]
