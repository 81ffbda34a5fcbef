"""What an estimator is, before any map is made. Nothing here imports torch."""

import re
from dataclasses import dataclass

from roarbench.estimators.parameters import Value
from roarbench.identity import fingerprint, record
from roarbench.terms import MATCHED_IMAGE, OTHER_IMAGE, OTHER_REFERENCE, SAME_CLASS

IG_STEPS = 25  # Hooker et al. 2019, supplement: points on the path from black to the image
SAMPLES = 15  # Hooker et al. 2019: noisy copies of an image (J)
NOISE = 0.15  # share of the image's range that is one standard deviation: the default of PAIR's saliency library
BLUR = 0.05  # a blurred twin's standard deviation as a share of the image's side: 3.2 pixels of 64
SUBMISSION = "submission"  # base of what somebody handed in; its id names the file: NAME@hash
TRUSTED = "trusted"  # it was run without the sandbox, for ever part of its id: NAME@hash~trusted
CUDA = "cuda"  # its maps were made on a GPU: NAME@hash~cuda, NAME@hash~trusted~cuda
HANDED = (OTHER_IMAGE, SAME_CLASS, MATCHED_IMAGE)  # twins that remove what their parent ranks first in another image
LENT = (*HANDED, OTHER_REFERENCE)  # twins without rankings of their own: they take those of their parent
VARIANTS = ("untrained", "shuffled", "decoy", "other-target", "constant-target")  # what a twin explains instead
CONTROLS = ("random", "sobel", "random-blurred")  # each row is held against each of them
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
DRAWN = ("kernel-shap", "rise")  # their defaults are far from their limit; docs/estimators.md says how far
SHAPLEY_FEATURES = 16  # at most: 65,536 coalitions of each image
_LATER_CONTROLS: dict[str, dict[str, Value]] = {
    "random-smooth": {"width": 0.1},
    "centre": {},
    "contrast": {},
    "deviation": {"baseline": "mean"},
    "deviation-blurred": {"baseline": "mean"},
    "colour-deviation": {},
    "saturation-deviation": {},
}
_TOLD = ("truth", "leak")  # bases of controls that are told what no image says
_SPATIAL = ("sobel", "random-smooth", "centre", "contrast", "deviation-blurred", "saturation-deviation")
# parameters of a base or of a form, with what they are where a name does not say it
_DEFAULTS: dict[str, dict[str, Value]] = {
    **dict.fromkeys(NOISY, _COPIES),
    "ig": {"steps": IG_STEPS, "baseline": "black"},
    **METHODS,
    **_LATER_CONTROLS,
}
_SHARED: dict[str, Value] = {**_COPIES, **_DEFAULTS["ig"]}  # all of the pass that estimators share
_VALUES = re.compile(r"\(.*\)")  # in a name: parameters with their values


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
        later = ("baseline",) if self.control else ()  # it came after rows of the control
        constants |= {} if self.shared else {key: self.parameters[key] for key in self.parameters if key not in later}
        constants |= {"ig_steps" if name == "steps" else name: value for name, value in self.values}
        found = {key: value for key, value in record(self).items() if key not in ("about", "values")}
        return fingerprint(found | constants)

    @property
    def variant(self) -> str:
        """Return what is explained: the `trained` reference, or what its twin explains instead."""
        return self.twin if self.twin in VARIANTS else "trained"

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
        return self.form != "redrawn" and self.twin not in LENT

    @property
    def asks_nothing(self) -> bool:
        """Return whether it is a row that asks no network and knows no truth, so that a map that explains beats it."""
        return self.control and self.placed and self.base not in _TOLD

    @property
    def placed(self) -> bool:
        """Return whether it is a row of its own; twins and `random-redrawn` check another row and have no place."""
        return self.id in CONTROLS or (self.mapped and not self.twin)
