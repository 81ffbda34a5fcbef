"""The table of estimators: what each id means, one line each. Nothing here imports torch.

Hooker et al. 2019 name three bases and their ensembles; the 18 below are the six forms of each base
(docs/protocol.md, section 3). A published id never means something else later: a changed definition gets a new version.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from roarbench.calls import propose
from roarbench.errors import CallerError, UnknownName
from roarbench.estimators.parameters import Value, read_values, written
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

_COPIES: dict[str, Value] = {"noise": NOISE, "samples": SAMPLES}
METHODS: dict[str, dict[str, Value]] = {  # bases that are computed one by one, with their parameters and defaults
    "input-x-grad": {},
    "deeplift": {"baseline": "black"},
    "lrp": {},
    "gradient-shap": {"noise": NOISE, "samples": 25, "baseline": "black"},
    "gradcam": {"layer": "last"},
    "guided-gradcam": {"layer": "last"},
    "hires-cam": {"layer": "last"},
    "layer-cam": {"layer": "last"},
    "score-cam": {"baseline": "mean", "layer": "last"},
    "occlusion": {"baseline": "mean", "patches": 8},
    "feature-ablation": {"baseline": "mean", "patches": 8},
    "kernel-shap": {"samples": 256, "baseline": "mean", "patches": 8},
    "rise": {"samples": 256, "baseline": "mean", "patches": 7},
    "shapley": {"baseline": "mean"},
}
SHAPLEY_FEATURES = 16  # at most: 65,536 coalitions of each image
_SPATIAL = ("sobel", "random-smooth", "centre", "contrast")
_LATER_CONTROLS: dict[str, dict[str, Value]] = {"random-smooth": {"width": 0.1}, "centre": {}, "contrast": {}}
# parameters of a base or of a form, with what they are where a name does not say it
_DEFAULTS: dict[str, dict[str, Value]] = {
    **dict.fromkeys(NOISY, _COPIES),
    "ig": {"steps": IG_STEPS, "baseline": "black"},
    **METHODS,
    **_LATER_CONTROLS,
}
_SHARED: dict[str, Value] = {**_COPIES, **_DEFAULTS["ig"]}  # all of the pass that estimators share


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
        values: Parameters that are not the default, in the order of their table.
    """

    id: str
    base: str
    form: str
    about: str
    control: bool = False
    version: int = 1
    twin: str = ""
    values: tuple[tuple[str, Value], ...] = ()

    @property
    def fingerprint(self) -> str:
        """Return the hash of everything that fixes its maps."""
        if self.submitted and not self.twin:  # the file fixes its maps, and the id has the file's hash
            return fingerprint({"id": self.id, "version": self.version})
        constants: dict[str, Value] = {"ig_steps": IG_STEPS, **_COPIES, "blur": BLUR, "seed": SEED}
        constants |= {} if self.shared else self.parameters
        constants |= {"ig_steps" if name == "steps" else name: value for name, value in self.values}
        found = {key: value for key, value in record(self).items() if key not in ("about", "values")}
        return fingerprint(found | constants)

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
        """Return whether its maps come from the shared pass through the model."""
        return not (self.control or self.alone)

    @property
    def alone(self) -> bool:
        """Return whether it explains a model in passes of its own: a submission, or one of `METHODS`."""
        return self.submitted or self.base in METHODS

    @property
    def spatial(self) -> bool:
        """Return whether it looks at what lies beside a feature: the columns of a table have no neighbours."""
        values = {name: self.value(name) for name in self.parameters}
        smooth = self.twin == "blurred" or values.get("baseline") == "blur"
        return smooth or self.base in _SPATIAL or not {"patches", "layer"}.isdisjoint(values)

    @property
    def joins(self) -> bool:
        """Return whether it stands beside Random in any suite once it is asked for, though no suite names it."""
        return self.alone or self.base in _LATER_CONTROLS

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
    def parameters(self) -> dict[str, Value]:
        """Return the parameters that may stand in its name, with what they are where it does not say them."""
        return {**_DEFAULTS.get(self.base, {}), **_DEFAULTS.get(self.form, {})}

    def value(self, name: str) -> Value:
        """Return what a parameter is; that of the paper's estimators where it has none of this name."""
        return {**_SHARED, **self.parameters, **dict(self.values)}[name]

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
    Estimator("random-blurred", "random", "base", "the random control's map, blurred", control=True, twin="blurred"),
    Estimator("random-redrawn", "random", "redrawn", "a random ranking drawn anew each epoch", control=True),
)
_VALUES = re.compile(r"\(.*\)")  # in a name: parameters with their values
_SET = (
    r"[A-Za-z][A-Za-z0-9_]{0,39}=[A-Za-z0-9._+-]{1,100}"  # a parameter of a submission; its file says which there are
)
_ENTRY = re.compile(rf"[a-z0-9-]{{1,40}}@[0-9a-f]{{8}}(\({_SET}(,{_SET})*\))?(~{TRUSTED})?(~{CUDA})?")  # twins follow
ESTIMATORS = {estimator.id: estimator for estimator in _TABLE}
CONTROLS = ("random", "sobel", "random-blurred")  # each row is held against each of them
PAPER = tuple(estimator.id for estimator in _TABLE if estimator.base in ("grad", "gb", "ig"))
JOINING = tuple(estimator.id for estimator in _TABLE if estimator.joins)  # no suite names them
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
    parent = Estimator(parent_id, SUBMISSION, "base", "") if _ENTRY.fullmatch(parent_id) else ESTIMATORS.get(parent_id)
    if parent is None or twin not in _twins(parent):
        twins = (f"{row.id}~{twin}" for row in _TABLE for twin in _twins(row))
        raise UnknownName("estimator", name, (*ESTIMATORS, *twins, *others), propose("estimators"))
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
