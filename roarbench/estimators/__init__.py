"""The table of estimators: what each id means, one line each. Nothing here imports torch.

Hooker et al. 2019 name three bases and their ensembles; the 18 below are the six forms of each base
(docs/protocol.md, section 3). A published id never means something else later: a changed definition gets a new version.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from roarbench.calls import propose
from roarbench.errors import CallerError, UnknownName
from roarbench.identity import fingerprint, record
from roarbench.terms import OTHER_IMAGE, SAME_CLASS

IG_STEPS = 25  # Hooker et al. 2019, supplement: points on the path from black to the image
SAMPLES = 15  # Hooker et al. 2019: noisy copies of an image (J)
NOISE = 0.15  # share of the image's range that is one standard deviation: the default of PAIR's saliency library
BLUR = 0.05  # a blurred twin's standard deviation as a share of the image's side: 3.2 pixels of 64
SUBMISSION = "submission"  # base of what somebody handed in; its id names the file: NAME@hash
TRUSTED = "trusted"  # it was run without the sandbox, for ever part of its id: NAME@hash~trusted
CUDA = "cuda"  # its maps were made on a GPU: NAME@hash~cuda, NAME@hash~trusted~cuda
HANDED = (OTHER_IMAGE, SAME_CLASS)  # twins that remove what their parent ranks first in another image
SEED = 0  # of the noise, the random control, the other targets and the other images
NOISY = ("smooth", "smooth-squared", "smoothed-square", "variance")  # forms over noisy copies of the image


class Parameter(NamedTuple):
    """A number that stands in the name of an estimator: `var-grad(noise=0.05)`.

    Attributes:
        forms: Whose it is.
        default: What it is where the name does not say it; a name with it is the name without it.
        most: The largest value; it has to be above 0.
        about: What it is.
    """

    forms: tuple[str, ...]
    default: float
    most: float
    about: str


PARAMETERS = {
    "noise": Parameter(NOISY, NOISE, 2.0, "standard deviation of the noise on copies, as a share of the image's range")
}


@dataclass(frozen=True)
class Estimator:
    """One row of the table.

    Attributes:
        id: What `--estimators` takes.
        base: The map that the form is built on, or the control itself.
        form: What is done with the base: itself, squared, or one of the ensembles over noisy copies.
        about: One sentence.
        control: Never looks at the model.
        version: Counts up when the definition changes, in the row itself: its default stays 1, which hashes leave out.
        twin: A check made from another estimator, one of `TWINS`; empty for the thing itself.
        noise: Standard deviation of the noise on copies, as a share of the image's range; of the forms in `NOISY`.
    """

    id: str
    base: str
    form: str
    about: str
    control: bool = False
    version: int = 1
    twin: str = ""
    noise: float = NOISE

    @property
    def fingerprint(self) -> str:
        """Return the hash of everything that fixes its maps."""
        if self.submitted and not self.twin:  # the file fixes its maps, and the id has the file's hash
            return fingerprint({"id": self.id, "version": self.version})
        constants = {"ig_steps": IG_STEPS, "samples": SAMPLES, "noise": self.noise, "blur": BLUR, "seed": SEED}
        return fingerprint({key: value for key, value in record(self).items() if key != "about"} | constants)

    @property
    def variant(self) -> str:
        """Return what is explained: the `trained` reference, an `untrained` network, or the `other-target`."""
        return self.twin if self.twin in ("untrained", "other-target") else "trained"

    @property
    def submitted(self) -> bool:
        """Return whether somebody submitted it."""
        return self.base == SUBMISSION

    @property
    def shared(self) -> bool:
        """Return whether its maps come from the shared pass through the model: not from a control or a file."""
        return not (self.control or self.submitted)

    @property
    def marks(self) -> tuple[str, ...]:
        """Return how a submission was run, if not in the sandbox on the processor: `trusted`, `cuda`."""
        return tuple(mark for mark in (TRUSTED, CUDA) if self.submitted and mark in self.id.split("~"))

    @property
    def parent(self) -> str:
        """Return the id of what a twin was made from, or its own."""
        return self.id.removesuffix(f"~{self.twin}") if self.twin else self.id

    @property
    def default(self) -> str:
        """Return the id of the same estimator with the default of every parameter, or its own."""
        return _VALUES.sub("", self.id)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters that may stand in its name."""
        mine = not (self.control or self.submitted)
        return {name: parameter for name, parameter in PARAMETERS.items() if mine and self.form in parameter.forms}

    @property
    def mapped(self) -> bool:
        """Return whether it has importance maps; `random-redrawn` is drawn while training and has none."""
        return self.form != "redrawn" and self.twin not in HANDED

    @property
    def placed(self) -> bool:
        """Return whether it is a row of its own; twins and `random-redrawn` check another row and have no place."""
        return self.id in CONTROLS or (self.mapped and not self.twin)


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
    Estimator("random-blurred", "random", "base", "the random control's map, blurred", control=True, twin="blurred"),
    Estimator("random-redrawn", "random", "redrawn", "a random ranking drawn anew each epoch", control=True),
)
_VALUES = re.compile(r"\(.*\)")  # in a name: parameters with their values
_ENTRY = re.compile(rf"[a-z0-9-]{{1,40}}@[0-9a-f]{{8}}(~{TRUSTED})?(~{CUDA})?")  # and the twins of what it names
ESTIMATORS = {estimator.id: estimator for estimator in _TABLE}
CONTROLS = ("random", "sobel", "random-blurred")  # each row is held against each of them
PAPER = tuple(estimator.id for estimator in _TABLE if estimator.base in ("grad", "gb", "ig"))
TWINS = {
    "blurred": "its map after a Gaussian blur, which adds no information",
    "untrained": "the same on the reference's network with random weights",
    "other-target": "its map of a random class that the reference does not predict",
    OTHER_IMAGE: "its maps handed to other images: the same shapes, nothing about this image",
    SAME_CLASS: "its maps handed to other images of the same class: nothing about this image but its class",
}


def find_estimator(name: str, others: Iterable[str] = ()) -> Estimator:
    """Return the estimator of this id: of the table, a submission `NAME@hash`, or the twin `ID~TWIN` of either.

    What is in the table may have parameters, `ID(noise=0.05)`. The id of what is returned has those that are not the
    default, each number in its shortest form: `var-grad(noise=.050)` is `var-grad(noise=0.05)`.

    Args:
        name: The id.
        others: Ids, besides those of the table, that may have been meant where there is none.

    Raises:
        UnknownName: There is none.
        CallerError: It does not have these parameters, or not with these values.
    """
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    if "(" in name or ")" in name:
        return _with_values(name, others)
    if _ENTRY.fullmatch(name):
        return Estimator(name, SUBMISSION, "base", "a submission")
    parent_id, _, twin = name.rpartition("~")
    parent = Estimator(parent_id, SUBMISSION, "base", "") if _ENTRY.fullmatch(parent_id) else ESTIMATORS.get(parent_id)
    if parent is None or twin not in _twins(parent):
        twins = (f"{row.id}~{twin}" for row in _TABLE for twin in _twins(row))
        raise UnknownName("estimator", name, (*ESTIMATORS, *twins, *others), propose("estimators"))
    return replace(parent, id=name, twin=twin, about=f"{parent.id}: {TWINS[twin]}")


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
    values: dict[str, float] = {}
    for part in listed.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or key in values:
            raise CallerError(f"cannot read the parameters of '{name}'; write each once, as in ID(noise=0.05)")
        values[key] = _value(parent, key, value)
    changed: dict[str, Any] = {key: value for key, value in values.items() if value != PARAMETERS[key].default}
    if not changed:
        return table
    said = ",".join(f"{key}={changed[key]:g}" for key in PARAMETERS if key in changed)
    about = ", ".join(f"{key} {changed[key]:g}" for key in PARAMETERS if key in changed)
    return replace(table, id=f"{plain}({said}){twin}", about=f"{table.about}; {about}", **changed)


def _value(estimator: Estimator, name: str, text: str) -> float:
    """Return the value of a parameter, as exact as names are."""
    if name not in estimator.parameters:
        has = ", ".join(estimator.parameters) or "none"
        raise CallerError(f"'{estimator.id}' has no parameter '{name}'; it has: {has}")
    parameter = PARAMETERS[name]
    try:
        value = float(f"{float(text):g}")
    except ValueError:
        value = 0.0
    if not 0 < value <= parameter.most:  # NaN is not
        expected = f"expected a number above 0, at most {parameter.most:g}"
        raise CallerError(f"{name} of '{estimator.id}' is '{text}', {expected}: {parameter.about}")
    return value


def ranked_by(name: str) -> Estimator | None:
    """Return the estimator by whose rankings features go: this one, or the parent whose maps other images are given.

    None for `random-redrawn`, which has no rankings.

    Raises:
        UnknownName: There is no estimator of this id.
    """
    estimator = find_estimator(name)
    estimator = find_estimator(estimator.parent) if estimator.twin in HANDED else estimator
    return estimator if estimator.mapped else None


def _twins(parent: Estimator) -> tuple[str, ...]:
    if parent.base == "random":  # its blurred twin is a row of its own
        return HANDED if parent.mapped else ()
    return ("blurred", *HANDED) if parent.control else tuple(TWINS)
