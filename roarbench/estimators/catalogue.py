"""The table of estimators: what each id means, one line each. Nothing here imports torch.

Hooker et al. 2019 name three bases and their ensembles; the 18 below are the six forms of each base
(docs/protocol.md, section 3). A published id never means something else later: a changed definition gets a new version.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from roarbench.errors import CallerError, UnknownName
from roarbench.estimators import CUDA, DRAWN, HANDED, LENT, METHODS, SUBMISSION, TRUSTED, Estimator
from roarbench.estimators.parameters import read_values, written
from roarbench.terms import MATCHED_IMAGE, OTHER_IMAGE, OTHER_REFERENCE, SAME_CLASS

_TABLE = (
    Estimator("random", "random", "base", "an exact-count random ranking, fixed per image", control=True),
    Estimator("sobel", "sobel", "base", "Sobel gradient magnitude of each channel", control=True),
    Estimator(
        "sobel-released",
        "sobel",
        "released",
        "signed Sobel derivative down the image, smoothed across the channels: what the paper's code computes",
        control=True,
    ),
    Estimator("grad", "grad", "base", "gradient of the predicted class's logit, signed"),
    Estimator("grad-sq", "grad", "squared", "gradient squared"),
    Estimator("sg-grad", "grad", "smooth", "SmoothGrad: mean gradient over noisy copies, signed"),
    Estimator("sg-grad-sq", "grad", "smooth-squared", "SmoothGrad of gradients, squared"),
    Estimator("sgsq-grad", "grad", "smoothed-square", "SmoothGrad-Squared: mean squared gradient over noisy copies"),
    Estimator("var-grad", "grad", "variance", "VarGrad: variance of the gradient over noisy copies"),
    Estimator("gb", "gb", "base", "guided backprop, signed"),
    Estimator("gb-sq", "gb", "squared", "guided backprop squared"),
    Estimator("sg-gb", "gb", "smooth", "SmoothGrad of guided backprop, signed"),
    Estimator("sg-gb-sq", "gb", "smooth-squared", "SmoothGrad of guided backprop, squared"),
    Estimator("sgsq-gb", "gb", "smoothed-square", "SmoothGrad-Squared of guided backprop"),
    Estimator("var-gb", "gb", "variance", "VarGrad of guided backprop"),
    Estimator("ig", "ig", "base", "integrated gradients from black, signed"),
    Estimator("ig-sq", "ig", "squared", "integrated gradients squared"),
    Estimator("sg-ig", "ig", "smooth", "SmoothGrad of integrated gradients, signed"),
    Estimator("sg-ig-sq", "ig", "smooth-squared", "SmoothGrad of integrated gradients, squared"),
    Estimator("sgsq-ig", "ig", "smoothed-square", "SmoothGrad-Squared of integrated gradients"),
    Estimator("var-ig", "ig", "variance", "VarGrad of integrated gradients"),
    Estimator("input-x-grad", "input-x-grad", "base", "gradient times the normalised image, signed"),
    Estimator("deeplift", "deeplift", "base", "DeepLIFT by its rescale rule, from black, signed"),
    Estimator("lrp", "lrp", "base", "LRP: rule z+ for convolutions but the first, rule epsilon for the rest, signed"),
    Estimator(
        "gradient-shap", "gradient-shap", "base", "mean gradient at drawn points of the paths to noisy copies, signed"
    ),
    Estimator("gradcam", "gradcam", "base", "Grad-CAM: channels of the last block, weighted by their mean gradient"),
    Estimator("guided-gradcam", "guided-gradcam", "base", "guided backprop times Grad-CAM"),
    Estimator("hires-cam", "hires-cam", "base", "HiResCAM: channels of the last block times their gradient"),
    Estimator("layer-cam", "layer-cam", "base", "Layer-CAM: channels of the last block times their positive gradient"),
    Estimator(
        "score-cam", "score-cam", "base", "Score-CAM: channels of the last block, weighted by what they show alone"
    ),
    Estimator("occlusion", "occlusion", "base", "fall of the logit where a sliding square becomes the mean colour"),
    Estimator(
        "feature-ablation", "feature-ablation", "base", "fall of the logit where one square of a grid becomes the mean"
    ),
    Estimator("kernel-shap", "kernel-shap", "base", "Shapley values of the squares of a grid, by regression"),
    Estimator("rise", "rise", "base", "RISE: mean of random masks, weighted by the class's probability under them"),
    Estimator("shapley", "shapley", "base", "exact Shapley values of all features, of which there are few"),
    Estimator("truth", "truth", "base", "the true ranking of planted data", control=True),
    Estimator(
        "truth-inverted", "truth", "inverted", "the true ranking of planted data, least important first", control=True
    ),
    Estimator(
        "truth-noisy",
        "truth",
        "noisy",
        "the true ranking of planted data, hidden in noise that a blur takes away",
        control=True,
    ),
    Estimator("truth-noisy-blurred", "truth", "noisy-blurred", "the same after the blur of all twins", control=True),
    Estimator(
        "leak", "leak", "base", "a random ranking of each true class: tells it, and knows no image", control=True
    ),
    Estimator(
        "random-smooth",
        "random-smooth",
        "base",
        "a random map of the smoothness that its width says",
        control=True,
    ),
    Estimator("centre", "centre", "base", "nearness to the middle of the image, the same for all images", control=True),
    Estimator("contrast", "contrast", "base", "distance of a number from the mean of the 5 x 5 at it", control=True),
    Estimator("deviation", "deviation", "base", "distance of a number from its baseline", control=True),
    Estimator("deviation-blurred", "deviation-blurred", "base", "that distance, blurred", control=True),
    Estimator(
        "colour-deviation",
        "colour-deviation",
        "base",
        "distance of a number from the training mean, signed, times that from the mean of its pixel",
        control=True,
    ),
    Estimator(
        "saturation-deviation",
        "saturation-deviation",
        "base",
        "saturation times the distance of the blurred image from the training mean",
        control=True,
    ),
    Estimator("random-blurred", "random", "base", "the random control's map, blurred", control=True, twin="blurred"),
    Estimator("random-redrawn", "random", "redrawn", "a random ranking drawn anew each epoch", control=True),
)
_SET = (
    r"[A-Za-z][A-Za-z0-9_]{0,39}=[A-Za-z0-9._+-]{1,100}"  # a parameter of a submission; its file says which there are
)
_ENTRY = re.compile(rf"[a-z0-9-]{{1,40}}@[0-9a-f]{{8}}(\({_SET}(,{_SET})*\))?(~{TRUSTED})?(~{CUDA})?")  # twins follow
ESTIMATORS = {estimator.id: estimator for estimator in _TABLE}
PAPER = tuple(estimator.id for estimator in _TABLE if estimator.base in ("grad", "gb", "ig"))
JOINING = tuple(estimator.id for estimator in _TABLE if estimator.joins)  # no suite names them
TWINS = {
    "blurred": "its map after a Gaussian blur, which adds no information",
    "untrained": "the same on the reference's network with random weights",
    "shuffled": "the same on the reference with each layer's weights shuffled",
    "decoy": "the same on a network that learnt how far its images were turned, not their classes",
    "other-target": "its map of a random class that the reference does not predict",
    "constant-target": "its map of one class, the same for all images",
    OTHER_REFERENCE: "its map of another reference of the suite",
    OTHER_IMAGE: "its maps handed to other images: the same shapes, nothing about this image",
    SAME_CLASS: "its maps handed to other images of the same class: nothing about this image but its class",
    MATCHED_IMAGE: "its maps handed to other images, with as many features of each stratum as their own maps remove",
}


def find_estimator(name: str, others: Iterable[str] = ()) -> Estimator:
    """Return the estimator of this id: of the table, a submission `NAME@hash`, or the twin `ID~TWIN` of either.

    What is in the table may have parameters, `ID(noise=0.05)`. The id of what is returned has those that are not the
    default, each number in its shortest form: `var-grad(noise=.050)` is `var-grad(noise=0.05)`. Those of a submission
    are taken as they stand, since its file alone says what they are (`Submission.tuned`).

    Args:
        name: The id.
        others: Ids, besides those of the table, that may have been meant where there is none.

    Raises:
        UnknownName: There is none.
        CallerError: It does not have these parameters, or not with these values.
    """
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    if "@" not in name and ("(" in name or ")" in name):
        return _with_values(name, others)
    if _ENTRY.fullmatch(name):
        return Estimator(name, SUBMISSION, "base", "a submission")
    parent_id, _, twin = name.rpartition("~")
    parent = _parent(parent_id)
    if parent is None or twin not in _twins(parent):
        twins = (f"{row.id}~{twin}" for row in _TABLE for twin in _twins(row))
        raise UnknownName("estimator", name, (*ESTIMATORS, *twins, *others), "estimators")
    return replace(parent, id=name, twin=twin, about=f"{parent.id}: {TWINS[twin]}")


def split_entry(name: str) -> tuple[str, str]:
    """Return the file of a submission, `NAME@hash`, and what its id has between parentheses."""
    return re.split(r"[(~]", name, maxsplit=1)[0], name.partition("(")[2].partition(")")[0]


def split_names(text: str) -> list[str]:
    """Split a list of ids at the commas between them, which are those outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth = max(0, depth + (letter == "(") - (letter == ")"))
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _with_values(name: str, others: Iterable[str]) -> Estimator:
    """Return an estimator with the parameters that its name has, or a twin of it."""
    found = re.fullmatch(r"([^()]*)\(([^()]*)\)(~[^()]*)?", name)
    if not found:
        raise CallerError(f"cannot read the estimator '{name}'; write ID(noise=0.05)")
    plain, listed, twin = found[1].strip(), found[2], found[3] or ""
    table, parent = find_estimator(plain + twin, others), find_estimator(plain)
    values = read_values(parent.id, parent.parameters, listed, name)
    if not values:
        return table
    said = ",".join(f"{key}={written(value)}" for key, value in values.items())
    about = ", ".join(f"{key} {written(value)}" for key, value in values.items())
    return replace(table, id=f"{plain}({said}){twin}", about=f"{table.about}; {about}", values=tuple(values.items()))


def shown_name(name: str) -> str:
    """Return an id as tables show it: with the draws where they are far too few for the method's limit.

    `rise` is shown as `rise(samples=256)`, which means the same.
    """
    base = re.split(r"[(~]", name, maxsplit=1)[0]
    if base not in DRAWN or "samples=" in name:
        return name
    said, rest = f"{base}(samples={METHODS[base]['samples']}", name.removeprefix(base)
    return f"{said},{rest[1:]}" if rest.startswith("(") else f"{said}){rest}"


def ranked_by(name: str) -> Estimator | None:
    """Return the estimator by whose rankings features go: this one, or the parent whose maps other images are given.

    None for `random-redrawn`, which has no rankings.

    Raises:
        UnknownName: There is no estimator of this id.
    """
    estimator = find_estimator(name)
    while estimator.twin in LENT:
        estimator = find_estimator(estimator.parent)
    return estimator if estimator.mapped else None


def _parent(name: str) -> Estimator | None:
    """Return what a twin of this name would be made of: also the twins of a map are handed to other images."""
    try:
        return find_estimator(name) if name else None
    except UnknownName:
        return None


def _twins(parent: Estimator) -> tuple[str, ...]:
    if parent.twin and parent.id not in ESTIMATORS:
        return () if parent.twin in HANDED else HANDED
    if parent.base == "random":  # its blurred twin is a row of its own
        return HANDED if parent.mapped else ()
    return ("blurred", *HANDED) if parent.control else tuple(TWINS)
