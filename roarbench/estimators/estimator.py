"""What an estimator is, before any map is made. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from roarbench.enums import MATCHED_IMAGE, OTHER_IMAGE, OTHER_REFERENCE
from roarbench.estimators.ids import EstimatorId
from roarbench.estimators.papers import Paper
from roarbench.estimators.parameters import Value
from roarbench.identity import hash_value, make_record

if TYPE_CHECKING:
    from torch import Tensor

    from roarbench.estimators.inputs import MapInput

IG_STEPS = 25  # Hooker et al. 2019, supplement: points on the path from black to the image
SAMPLES = 15  # Hooker et al. 2019: noisy copies of an image (J)
NOISE = 0.15  # share of the image's range that is one standard deviation: the default of PAIR's saliency library
BLUR = 0.05  # a blurred twin's standard deviation as a share of the image's side: 3.2 pixels of 64
FEATURES = 10  # of breast-cancer-10; Shapley values take a pass for each coalition of an image's features
SUBMISSION = "submission"  # base of what somebody handed in; its id names the file: NAME@hash
EXCHANGED_TWINS = (OTHER_IMAGE, MATCHED_IMAGE)  # they remove what their parent ranks first in another image
UNRANKED_TWINS = (*EXCHANGED_TWINS, OTHER_REFERENCE)  # they have no rankings of their own and take their parent's
VARIANTS = ("untrained", "shuffled", "other-target")  # what a twin explains instead
CONTROLS = ("random", "sobel", "random-blurred")  # each row is held against each of them
SEED = 0  # of the noise, the random control, the other targets and the other images
NOISY = ("smooth", "smooth-squared", "smoothed-square", "variance")  # forms over noisy copies of the image


class Passes(NamedTuple):
    """Passes of one image through a model."""

    forward: int
    backward: int


def _unhashed_field(default: Any) -> Any:
    """Return a field that is no part of an estimator's identity."""
    return field(default=default, compare=False, repr=False)


@dataclass(frozen=True)
class Estimator:
    """One row of the table, all that is known of it.

    The fields up to `values` are its identity. A file of `families` declares the others; those that are None there
    have not been said, and `tests/estimators/test_declarations.py` asks for them.
    """

    id: str  # what `--estimators` takes
    base: str = ""  # the map that the form is built on, or the control itself; the id where a declaration does not say
    form: str = "base"  # what is done with the base: itself, squared, or one of the ensembles over noisy copies
    about: str = _unhashed_field("")  # one sentence
    control: bool = False  # never looks at the model
    # counts up when the definition changes, in the row itself: its default stays 1, which hashes leave out
    version: int = 1
    twin: str = ""  # a check made from another estimator, one of `TWINS`; empty for the thing itself
    values: tuple[tuple[str, Value], ...] = ()  # parameters that are not the default, in the order of their table
    title: str = _unhashed_field("")  # its name as people say it
    # makes its importance maps, (n, c, h, w) or (n, 1, h, w). None for a submission, for what is redrawn while
    # training, and for the paper's 18, which the shared pass makes
    maps: Callable[[MapInput], Tensor] | None = _unhashed_field(None)
    # that may stand in its name, with their defaults
    parameters: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)
    # of one image, or a function of the estimator and an image's number of features. None for controls and for the
    # shared pass
    cost: Passes | Callable[[Estimator, int], Passes] | None = _unhashed_field(None)
    # where its base and its form were published, which may be nowhere: ()
    papers: tuple[Paper, ...] | None = _unhashed_field(None)
    # whether it needs what lies beside a feature, or has one number for all channels: it says nothing of a table,
    # whose columns are the channels of one pixel
    neighbours: bool | None = _unhashed_field(None)
    # stands beside Random in any suite that does not name it, once somebody asks for it
    addable: bool = _unhashed_field(True)
    uses_ground_truth: bool = _unhashed_field(False)  # it is told what no image says, so that beating it is no aim
    # a control that is told the class which the explained network predicts, so each network has its own
    uses_prediction: bool = _unhashed_field(False)
    # the default of its `samples` is far from the method's limit, so tables show how many they are
    few_samples: bool = _unhashed_field(False)
    most_features: int = _unhashed_field(0)  # of an image; 0 for any number
    module: str = _unhashed_field("")  # the file of `families` that declares it

    @cached_property
    def fingerprint(self) -> str:
        """Return the hash of everything that fixes its maps."""
        if self.submitted and not self.twin:  # the file fixes its maps, and the id has the file's hash
            return hash_value({"id": self.id, "version": self.version})
        identity = ("id", "base", "control", "version", "twin")
        found = {"form": self.form} | {key: value for key, value in make_record(self).items() if key in identity}
        found |= {"ig_steps": IG_STEPS, "noise": NOISE, "samples": SAMPLES, "blur": BLUR, "seed": SEED}
        if not self.shared:  # a control's baseline came after rows of it
            found |= {key: value for key, value in self.parameters.items() if not (self.control and key == "baseline")}
        return hash_value(found | {"ig_steps" if name == "steps" else name: value for name, value in self.values})

    @property
    def parts(self) -> EstimatorId:
        """Return its id in parts."""
        return EstimatorId.read(self.id)

    @property
    def parent(self) -> str:
        """Return the id of what a twin was made from, or its own."""
        return str(self.parts.parent)

    @property
    def row(self) -> str:
        """Return the id of what all its twins were made from, or its own."""
        return str(self.parts.row)

    @property
    def default(self) -> str:
        """Return the id of the same estimator with the default of every parameter, or its own."""
        return str(self.parts.default)

    @property
    def marks(self) -> tuple[str, ...]:
        """Return how a submission was run, if not in the sandbox on the processor: `trusted`, `cuda`."""
        return self.parts.marks

    @property
    def source(self) -> str:
        """Return the repository's file that declares it; empty for a submission."""
        return f"{self.module.replace('.', '/')}.py" if self.module else ""

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
        return not (self.control or self.own_passes)

    @property
    def own_passes(self) -> bool:
        """Return whether it explains a model in passes of its own."""
        return self.submitted or (self.maps is not None and not self.control)

    @property
    def hangs_on_network(self) -> bool:
        """Return whether its maps differ with the network, which it explains or whose answer it is told."""
        return self.uses_prediction or not self.control

    @property
    def spatial(self) -> bool:
        """Return whether it needs what lies beside a feature, also because its map or its baseline is blurred."""
        return bool(self.neighbours) or self.twin == "blurred" or dict(self.values).get("baseline") == "blur"

    @property
    def has_map(self) -> bool:
        """Return whether it has importance maps; `random-redrawn` is drawn while training and has none."""
        return self.form != "redrawn" and self.twin not in UNRANKED_TWINS

    @property
    def is_model_free(self) -> bool:
        """Return whether it sees at most the predicted class and knows no truth: a map that explains has to beat it."""
        return self.control and self.is_ranked and not self.uses_ground_truth

    @property
    def is_ranked(self) -> bool:
        """Return whether it is a row of its own; twins and `random-redrawn` check another row and have no place."""
        return self.id in CONTROLS or (self.has_map and not self.twin)

    def value(self, name: str) -> Value:
        """Return what a parameter is."""
        return {**self.parameters, **dict(self.values)}[name]

    def whole(self, name: str) -> int:
        """Return the value of a parameter that is a whole number."""
        return int(self.value(name))

    def passes(self, features: int = FEATURES) -> Passes:
        """Return what an image's map costs in passes of its own; `features` counts for exact Shapley values."""
        if callable(self.cost):
            return self.cost(self, features)
        return self.cost or Passes(0, 0)
