"""An estimator, its papers, and the input of the function that makes its maps. Nothing here imports torch at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from roarbench.enums import MATCHED_IMAGE, OTHER_IMAGE, OTHER_REFERENCE
from roarbench.estimators.ids import EstimatorId, Value
from roarbench.estimators.lazy_imports import F, Tensor, nn, torch
from roarbench.identity import hash_value, make_record

_PLACES = {"article": "journal", "inproceedings": "booktitle", "incollection": "booktitle"}
_FIELD = re.compile(r"(\w+)\s*=\s*\{(.*?)\}\s*(?=,\s*\w+\s*=|,?\s*\}\s*$)", re.DOTALL)
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


@dataclass(frozen=True)
class Paper:
    """A publication."""

    source: str  # its BibTeX entry: author, title, year, journal, booktitle or howpublished, and eprint if it has one

    @property
    def fields(self) -> dict[str, str]:
        """Return the entry's fields by name."""
        return {name: " ".join(value.strip("{}").split()) for name, value in _FIELD.findall(self.source)}

    @property
    def text(self) -> str:
        """Return the paper in one line."""
        fields = self.fields
        authors = fields["author"].replace(" and ", ", ")
        number = f", arXiv:{fields['eprint']}" if "eprint" in fields else ""
        return f"{authors}: {fields['title']}. {fields[self._place]}, {fields['year']}{number}"

    @property
    def bibtex(self) -> str:
        """Return the entry with one field per line."""
        found = self.fields
        fields = {name: found[name] for name in ("title", "author", self._place, "year")}
        fields["title"] = f"{{{found['title']}}}"
        fields |= {"eprint": found["eprint"], "archiveprefix": "arXiv"} if "eprint" in found else {}
        lines = ",\n".join(f"  {name:13} = {{{value}}}" for name, value in fields.items())
        return f"{self.source.partition(',')[0].strip()},\n{lines}\n}}"

    @property
    def _place(self) -> str:
        return _PLACES.get(self.source.strip().removeprefix("@").partition("{")[0], "howpublished")


class Passes(NamedTuple):
    """Forward and backward passes of one image through a model."""

    forward: int
    backward: int


def _unhashed_field(default: Any) -> Any:
    """Return a field outside of an estimator's identity."""
    return field(default=default, compare=False, repr=False)


@dataclass(frozen=True)
class Estimator:
    """An estimator, as a row of the table.

    The fields up to `values` are its identity. A file of `families` declares the others; None means not declared, and
    `tests/estimators/test_declarations.py` finds these.
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
        """Return the hash of the fields that determine its maps."""
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
        """Return the id that a twin was made from, or its own."""
        return str(self.parts.parent)

    @property
    def row(self) -> str:
        """Return the id from which all its twins were made, or its own."""
        return str(self.parts.row)

    @property
    def default(self) -> str:
        """Return the id with the default of every parameter."""
        return str(self.parts.default)

    @property
    def marks(self) -> tuple[str, ...]:
        """Return how a submission was run, if not in the sandbox on the CPU: `trusted`, `cuda`."""
        return self.parts.marks

    @property
    def source(self) -> str:
        """Return the file of the repository that declares it; empty for a submission."""
        return f"{self.module.replace('.', '/')}.py" if self.module else ""

    @property
    def variant(self) -> str:
        """Return the explained variant: `trained`, or that of its twin."""
        return self.twin if self.twin in VARIANTS else "trained"

    @property
    def submitted(self) -> bool:
        """Return whether it is a submission."""
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
        """Return whether its maps depend on the network, through the network itself or its prediction."""
        return self.uses_prediction or not self.control

    @property
    def spatial(self) -> bool:
        """Return whether it uses neighbouring features, also through a blurred map or baseline."""
        return bool(self.neighbours) or self.twin == "blurred" or dict(self.values).get("baseline") == "blur"

    @property
    def has_map(self) -> bool:
        """Return whether it has importance maps; `random-redrawn`, drawn during training, has none."""
        return self.form != "redrawn" and self.twin not in UNRANKED_TWINS

    @property
    def is_model_free(self) -> bool:
        """Return whether it uses at most the predicted class and no ground truth: a bar for maps that explain."""
        return self.control and self.is_ranked and not self.uses_ground_truth

    @property
    def is_ranked(self) -> bool:
        """Return whether it is a row of its own; twins and `random-redrawn` check another row."""
        return self.id in CONTROLS or (self.has_map and not self.twin)

    def value(self, name: str) -> Value:
        """Return the value of a parameter."""
        return {**self.parameters, **dict(self.values)}[name]

    def whole(self, name: str) -> int:
        """Return the value of an integer parameter."""
        return int(self.value(name))

    def passes(self, features: int = FEATURES) -> Passes:
        """Return the passes per map outside of the shared pass; `features` matters for exact Shapley values."""
        if callable(self.cost):
            return self.cost(self, features)
        return self.cost or Passes(0, 0)


class ClassImages(NamedTuple):
    """An image per class, made from training images without a network, float32 (classes, c, h, w), normalised."""

    means: Tensor  # how far the mean image of each class lies from that of all
    weights: Tensor  # of a linear classifier, fitted to thumbnails of 6 x 6 pixels and enlarged to the images' size

    def to(self, device: torch.device) -> ClassImages:
        """Move both to a device."""
        return ClassImages(self.means.to(device), self.weights.to(device))


class Batch(NamedTuple):
    """Images, targets and everything else that estimators and controls may use, except the model."""

    images: Tensor  # float32 (n, c, h, w), normalised; float64 gives float64 maps
    targets: Tensor  # int64 (n,), the classes to explain
    ids: Tensor  # int64 (n,), one number per image of the data set, unique over both splits; the key of its chance
    # planted data's true importance, (n, c, h, w), larger = more important; None for other data
    truth: Tensor | None = None
    by_class: ClassImages | None = None  # what training images tell of each class; None where no control asks for it
    seed: int = 0  # of the explained network's training, for maps that are told which features it uses

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device; numbers stay on the CPU, where their chance is drawn."""
        truth = None if self.truth is None else self.truth.to(device)
        by_class = None if self.by_class is None else self.by_class.to(device)
        return Batch(self.images.to(device), self.targets.to(device), self.ids, truth, by_class, self.seed)

    def part(self, rows: slice) -> Batch:
        """Return these rows of the batch."""
        truth = None if self.truth is None else self.truth[rows]
        return Batch(self.images[rows], self.targets[rows], self.ids[rows], truth, self.by_class, self.seed)


class Settings(NamedTuple):
    """Parameters of the shared pass; the defaults are the paper's."""

    noise: float = NOISE  # standard deviation of the noise on copies, as a share of the image's range
    samples: int = SAMPLES  # noisy copies of an image
    steps: int = IG_STEPS  # points on the path of integrated gradients
    baseline: str = "black"  # where that path begins, a name that `make_baseline_images` takes


PAPERS = Settings()


class MapInput(NamedTuple):
    """Input of a function that computes an estimator's maps."""

    estimator: Estimator
    batch: Batch
    black: Tensor  # float (c, 1, 1), the black pixel, normalised
    network: nn.Module | None = None  # logits out, eval mode; it is left as it is. None for controls

    @property
    def images(self) -> Tensor:
        """Return the images, float (n, c, h, w), normalised."""
        return self.batch.images

    @property
    def model(self) -> nn.Module:
        """Return the network."""
        assert self.network is not None, "a control never asks the network"
        return self.network

    @property
    def baseline(self) -> Tensor:
        """Return each image's baseline, like the images, by the estimator's parameter `baseline`."""
        return make_baseline_images(str(self.estimator.value("baseline")), self.images, self.black)

    def logit(self, images: Tensor) -> Tensor:
        """Return the target logit, (n, 1), of other images in place of the batch's."""
        found: Tensor = self.model(images).gather(1, self.batch.targets[:, None])
        return found


def make_baseline_images(name: str, images: Tensor, black: Tensor) -> Tensor:
    """Return the baseline of each image, float (n, c, h, w), normalised, as a new tensor.

    Args:
        name: `black`, the black pixel; `mean`, the mean colour of the training images, which is 0; or `blur`, the image
            after a Gaussian blur.
        images: Float (n, c, h, w), normalised.
        black: The black pixel, normalised, (c, 1, 1).
    """
    if name == "black":
        return torch.empty_like(images).copy_(black)
    return torch.zeros_like(images) if name == "mean" else blur(images)


def blur(importance: Tensor, width: float = BLUR) -> Tensor:
    """Blur each channel of a map (n, c, h, w) with a Gaussian, which adds no information (Song et al., arXiv
    2304.13836).

    The standard deviation is `width` of the side, at most 0.2. The kernel is cut off at 4 standard deviations, and the
    map is mirrored at its border.
    """
    h, w = importance.shape[2:]
    return _blur_matrix(h, width, importance).T @ importance @ _blur_matrix(w, width, importance)


def _blur_matrix(side: int, width: float, like: Tensor) -> Tensor:
    """Return the blur as a matrix (side, side): row i is the blurred unit impulse at i."""
    sigma = width * side
    radius = round(4 * sigma)
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (offsets / sigma) ** 2)
    lines = F.pad(torch.eye(side, dtype=torch.float64)[:, None], (radius, radius), mode="reflect")
    return F.conv1d(lines, (kernel / kernel.sum())[None, None])[:, 0].to(like)
