"""An estimator, its papers, and the input of the function that computes its maps. torch is imported at first use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from roarbench.enums import MATCHED_IMAGE, OTHER_IMAGE, OTHER_REFERENCE
from roarbench.estimators.ids import EstimatorId, Value
from roarbench.estimators.lazy_torch import F, Tensor, nn, torch
from roarbench.identity import hash_value, make_json_record

_PLACES = {"article": "journal", "inproceedings": "booktitle", "incollection": "booktitle"}
_FIELD = re.compile(r"(\w+)\s*=\s*\{(.*?)\}\s*(?=,\s*\w+\s*=|,?\s*\}\s*$)", re.DOTALL)
IG_STEPS = 25  # Hooker et al. 2019, supplement: points on the path from black to the image
SAMPLES = 15  # noisy copies per image (J), Hooker et al. 2019
NOISE = 0.15  # standard deviation of the noise / range of the image: the default of PAIR's saliency library
BLUR = 0.05  # standard deviation of a blurred twin's blur / side of the image: 3.2 of 64 pixels
SUBMISSION = "submission"  # base of submissions; their ids name the file: NAME@hash
EXCHANGED_TWINS = (OTHER_IMAGE, MATCHED_IMAGE)  # twins that remove another image's top-ranked features of their parent
UNRANKED_TWINS = (*EXCHANGED_TWINS, OTHER_REFERENCE)  # twins that use their parent's rankings
VARIANTS = ("untrained", "shuffled", "other-target")  # twins with another explained model or class
CONTROLS = ("random", "sobel", "random-blurred")  # controls that every row is compared with
SEED = 0  # seed of noise, random control, other targets and other images
NOISY = ("smooth", "smooth-squared", "smoothed-square", "variance")  # forms over noisy copies of the image


@dataclass(frozen=True)
class Paper:
    """A publication."""

    source: str  # BibTeX entry: author, title, year, journal, booktitle or howpublished, and eprint if present

    @property
    def fields(self) -> dict[str, str]:
        """Return the fields of the entry by name."""
        return {name: " ".join(value.strip("{}").split()) for name, value in _FIELD.findall(self.source)}

    @property
    def text(self) -> str:
        """Return the paper in one line."""
        fields = self.fields
        authors = fields["author"].replace(" and ", ", ")
        number = f", arXiv:{fields['eprint']}" if "eprint" in fields else ""
        return f"{authors}: {fields['title']}. {fields[self._source_text]}, {fields['year']}{number}"

    @property
    def bibtex(self) -> str:
        """Return the entry with one field per line."""
        read = self.fields
        fields = {name: read[name] for name in ("title", "author", self._source_text, "year")}
        fields["title"] = f"{{{read['title']}}}"
        fields |= {"eprint": read["eprint"], "archiveprefix": "arXiv"} if "eprint" in read else {}
        lines = ",\n".join(f"  {name:13} = {{{value}}}" for name, value in fields.items())
        return f"{self.source.partition(',')[0].strip()},\n{lines}\n}}"

    @property
    def _source_text(self) -> str:
        return _PLACES.get(self.source.strip().removeprefix("@").partition("{")[0], "howpublished")


class Passes(NamedTuple):
    """Forward and backward passes of one image through a model."""

    forward: int
    backward: int


def _make_unhashed_field(default: Any) -> Any:
    return field(default=default, compare=False, repr=False)


@dataclass(frozen=True)
class Estimator:
    """An estimator, as a row of the table.

    The fields up to `values`, except `about`, are its identity. A file of `families` declares the others. A field that
    is None was not declared, which `tests/estimators/test_declarations.py` reports.
    """

    id: str  # value of `--estimators`
    base: str = ""  # base map of the form, or the control; the id if not declared
    form: str = "base"  # operation on the base: none, squared, or an ensemble over noisy copies
    about: str = _make_unhashed_field("")  # one sentence
    control: bool = False  # the estimator ignores the model
    # increases with every change of the definition, in the row itself; the default stays 1, which hashes omit
    version: int = 1
    twin: str = ""  # kind of twin, one of `TWINS`; empty for other estimators
    # parameters with other values than the default, in the order of `PARAMETERS`
    values: tuple[tuple[str, Value], ...] = ()
    title: str = _make_unhashed_field("")  # name in print
    # function that makes importance maps, (n, c, h, w) or (n, 1, h, w). None for submissions, for controls redrawn
    # during training, and for the paper's 18 estimators, which the shared pass computes
    maps: Callable[[MapInput], Tensor] | None = _make_unhashed_field(None)
    # parameters that the id may contain, with their defaults
    parameters: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)
    # passes per image, or a function of the estimator and an image's number of features. None for controls and for the
    # shared pass
    cost: Passes | Callable[[Estimator, int], Passes] | None = _make_unhashed_field(None)
    # publications of base and form; () if unpublished
    papers: tuple[Paper, ...] | None = _make_unhashed_field(None)
    # the estimator needs neighbouring features, or gives one number for all channels, so it does not apply to tables,
    # whose columns are the channels of one pixel
    neighbours: bool | None = _make_unhashed_field(None)
    # `--estimators` may add the estimator to suites that do not name it
    addable: bool = _make_unhashed_field(True)
    # the estimator uses information that no image contains, so rows need not beat it
    uses_ground_truth: bool = _make_unhashed_field(False)
    # the control uses the class that the explained network predicts, so its maps differ between networks
    uses_prediction: bool = _make_unhashed_field(False)
    # the default of `samples` is too small for convergence, so tables show the number
    few_samples: bool = _make_unhashed_field(False)
    most_features: int = _make_unhashed_field(0)  # maximum features per image; 0 for any number
    # one pass holds each image together with its baseline, so a batch takes the memory of two
    passes_baseline: bool = _make_unhashed_field(False)
    # the function traces the network's own modules, so the network must not be wrapped in another module
    traces_network: bool = _make_unhashed_field(False)
    module: str = _make_unhashed_field("")  # file of `families` that declares the estimator

    @cached_property
    def fingerprint(self) -> str:
        """Return the hash of the fields that determine the maps."""
        # the id contains the hash of the submission's file, which determines the maps
        if self.submitted and not self.twin:
            return hash_value({"id": self.id, "version": self.version})
        identity = ("id", "base", "control", "version", "twin")
        values = {"form": self.form} | {key: value for key, value in make_json_record(self).items() if key in identity}
        values |= {"ig_steps": IG_STEPS, "noise": NOISE, "samples": SAMPLES, "blur": BLUR, "seed": SEED}
        if not self.uses_shared_pass:  # published rows of controls are older than the parameter `baseline`
            values |= {key: value for key, value in self.parameters.items() if not (self.control and key == "baseline")}
        return hash_value(values | {"ig_steps" if name == "steps" else name: value for name, value in self.values})

    @property
    def parsed_id(self) -> EstimatorId:
        """Return the parts of the id."""
        return EstimatorId.parse(self.id)

    @property
    def parent_id(self) -> str:
        """Return the id from which a twin was made, or the estimator's own."""
        return str(self.parsed_id.parent)

    @property
    def untwinned_id(self) -> str:
        """Return the id from which all twins were made, or the estimator's own."""
        return str(self.parsed_id.untwinned)

    @property
    def explained_variant(self) -> str:
        """Return the explained variant of the model or class: `trained`, or the kind of twin."""
        return self.twin if self.twin in VARIANTS else "trained"

    @property
    def submitted(self) -> bool:
        """Return whether the estimator is a submission."""
        return self.base == SUBMISSION

    @property
    def uses_shared_pass(self) -> bool:
        """Return whether the maps come from the shared pass through the model."""
        return not (self.control or self.has_own_passes)

    @property
    def has_own_passes(self) -> bool:
        """Return whether the estimator explains a model in passes of its own."""
        return self.submitted or (self.maps is not None and not self.control)

    @property
    def depends_on_network(self) -> bool:
        """Return whether the maps depend on the network, through the network itself or its prediction."""
        return self.uses_prediction or not self.control

    @property
    def uses_neighbours(self) -> bool:
        """Return whether the estimator uses neighbouring features, including through a blurred map or baseline."""
        return bool(self.neighbours) or self.twin == "blurred" or dict(self.values).get("baseline") == "blur"

    @property
    def has_own_map(self) -> bool:
        """Return whether the estimator has maps of its own; `random-redrawn` and twins that reuse maps have none."""
        return self.form != "redrawn" and self.twin not in UNRANKED_TWINS

    @property
    def is_model_free(self) -> bool:
        """Return whether the estimator is a control that uses at most the predicted class; rows have to beat these.

        Twins, `random-redrawn` and controls that use the ground truth are not included.
        """
        return self.control and self.has_own_row and not self.uses_ground_truth

    @property
    def has_own_row(self) -> bool:
        """Return whether the estimator is a row of its own; twins and `random-redrawn` are checks of another row."""
        return self.id in CONTROLS or (self.has_own_map and not self.twin)

    def get_value(self, name: str) -> Value:
        """Return the value of a parameter."""
        return {**self.parameters, **dict(self.values)}[name]

    def get_integer(self, name: str) -> int:
        """Return the value of an integer parameter."""
        return int(self.get_value(name))


class ClassImages(NamedTuple):
    """An image per class, computed from training images without a network, float32 (classes, c, h, w), normalised."""

    means: Tensor  # mean image of each class minus the mean of all images
    # weights of a linear classifier, fitted to thumbnails of 6 x 6 pixels and enlarged to the images' size
    weights: Tensor

    def to(self, device: torch.device) -> ClassImages:
        """Return a copy of the class images on a device."""
        return ClassImages(self.means.to(device), self.weights.to(device))


class Batch(NamedTuple):
    """Images, targets and all other data that estimators and controls may use, except the model."""

    images: Tensor  # float32 (n, c, h, w), normalised; float64 gives float64 maps
    targets: Tensor  # int64 (n,), the classes to explain
    # int64 (n,), one number per image of the data set, unique over both splits; seeds the image's random numbers
    ids: Tensor
    # planted data's true importance, (n, c, h, w), larger = more important; None for other data
    truth: Tensor | None = None
    class_images: ClassImages | None = None  # class statistics of the training images; None if no control needs them
    seed: int = 0  # seed of the explained network's training, for controls that use the network's true features

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device; image numbers stay on the CPU, where random numbers are drawn."""
        truth = None if self.truth is None else self.truth.to(device)
        class_images = None if self.class_images is None else self.class_images.to(device)
        return Batch(self.images.to(device), self.targets.to(device), self.ids, truth, class_images, self.seed)

    def select_rows(self, rows: slice) -> Batch:
        """Return these rows of the batch."""
        truth = None if self.truth is None else self.truth[rows]
        return Batch(self.images[rows], self.targets[rows], self.ids[rows], truth, self.class_images, self.seed)


class SharedPassSettings(NamedTuple):
    """Parameters of the shared pass; the defaults are the paper's."""

    noise: float = NOISE  # standard deviation of the noise / range of the image
    samples: int = SAMPLES  # noisy copies per image
    steps: int = IG_STEPS  # points on the path of integrated gradients
    baseline: str = "black"  # start of the path, a name for `make_baseline_images`


PAPERS = SharedPassSettings()


class MapInput(NamedTuple):
    """Input of a function that computes an estimator's maps."""

    estimator: Estimator
    batch: Batch
    black: Tensor  # float (c, 1, 1), the black pixel, normalised
    network: nn.Module | None = None  # returns logits, eval mode, never changed; None for controls

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
        """Return the baseline of each image, like the images, according to the estimator's parameter `baseline`."""
        return make_baseline_images(str(self.estimator.get_value("baseline")), self.images, self.black)

    def compute_logit(self, images: Tensor) -> Tensor:
        """Return the target logit, (n, 1), of images that replace those of the batch."""
        logit: Tensor = self.model(images).gather(1, self.batch.targets[:, None])
        return logit


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
    """Blur each channel of a map (n, c, h, w) with a Gaussian, which adds no information.

    The standard deviation is `width` times the side, with `width` at most 0.2. The kernel is cut off at 4 standard
    deviations, and the map is mirrored at its border (Song et al., arXiv 2304.13836).
    """
    h, w = importance.shape[2:]
    return _make_blur_matrix(h, width, importance).T @ importance @ _make_blur_matrix(w, width, importance)


def _make_blur_matrix(side: int, width: float, like: Tensor) -> Tensor:
    """Return the blur as a matrix (side, side): row i is the blurred unit impulse at position i."""
    sigma = width * side
    radius = round(4 * sigma)
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (offsets / sigma) ** 2)
    lines = F.pad(torch.eye(side, dtype=torch.float64)[:, None], (radius, radius), mode="reflect")
    return F.conv1d(lines, (kernel / kernel.sum())[None, None])[:, 0].to(like)
