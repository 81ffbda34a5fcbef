"""The record of an estimator and of its papers, and the input of its function. torch is imported at first use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from typing import Any, NamedTuple

from roarbench.common.enums import MATCHED_IMAGE, OTHER_IMAGE, OTHER_REFERENCE, TEST_IDS, Order, Split
from roarbench.common.identity import hash_value, make_json_record
from roarbench.estimators.ids import EstimatorId, Value
from roarbench.estimators.lazy_torch import F, Tensor, nn, torch

_FIELD = re.compile(r"^  (\w+) += \{(.*)\},?$", re.MULTILINE)
IG_STEPS = 25  # points on the path from black to the image (Hooker et al. 2019, supplement)
SAMPLES = 15  # noisy copies per image, called J by Hooker et al. 2019
NOISE = 0.15  # standard deviation of the noise, divided by the image's range; the default of PAIR's saliency library
BLUR = 0.05  # standard deviation of a blurred twin's blur, divided by the side of the image: 3.2 of 64 pixels
SEARCH = "search"  # base of blind searches, of which the longest contains the shorter ones
SUBMISSION = "submission"  # base of submissions; their ids name the file: NAME@hash
EXCHANGED_TWINS = (OTHER_IMAGE, MATCHED_IMAGE)  # twins that degrade an image by the parent's ranking of another image
UNRANKED_TWINS = (*EXCHANGED_TWINS, OTHER_REFERENCE)  # twins that have no ranking, because they use their parent's
VARIANTS = ("untrained", "shuffled", "other-target")  # twins that explain another model or another class
CONTROLS = ("random", "sobel", "random-blurred")  # controls with which every row is compared
SEED = 0  # seed of noise, random control, other targets and other images
NOISY = ("smooth", "smooth-squared", "smoothed-square", "variance")  # forms that combine maps of noisy image copies


class Paper(NamedTuple):
    """A publication, as in `roarbench/data/papers.bib`."""

    bibtex: str  # BibTeX entry with one field per line

    @property
    def text(self) -> str:
        """Return the citation as one line: authors, title, journal or book, year and arXiv number."""
        fields = {name: value.strip("{}") for name, value in _FIELD.findall(self.bibtex)}
        authors = fields["author"].replace(" and ", ", ")
        venue = next(fields[name] for name in ("journal", "booktitle", "howpublished") if name in fields)
        number = f", arXiv:{fields['eprint']}" if "eprint" in fields else ""
        return f"{authors}: {fields['title']}. {venue}, {fields['year']}{number}"


def find_paper(key: str) -> Paper:
    return _load_papers()[key]


@cache
def _load_papers() -> dict[str, Paper]:
    entries = resources.files("roarbench").joinpath("data/papers.bib").read_text("utf-8").strip().split("\n\n")
    return {entry.partition("{")[2].partition(",")[0]: Paper(entry) for entry in entries}


class Passes(NamedTuple):
    """Forward and backward passes of one image through a model."""

    forward: int
    backward: int


class Search(NamedTuple):
    """A blind search, with which a table in its order of removal compares rows of at most as many passes."""

    passes: int
    order: Order


class SharedPassSettings(NamedTuple):
    """Parameters of the shared pass; the defaults are the values of Hooker et al. 2019."""

    noise: float = NOISE  # standard deviation of the noise, divided by the range of the image
    samples: int = SAMPLES  # noisy copies per image
    steps: int = IG_STEPS  # points on the path of integrated gradients
    baseline: str = "black"  # start of the path, a name for `make_baseline_images`


PAPER_SETTINGS = SharedPassSettings()


def _make_unhashed_field(default: Any) -> Any:
    return field(default=default, compare=False, repr=False)


@dataclass(frozen=True)
class Estimator:
    """An estimator, as a row of the table of estimators.

    The fields from `id` to `values`, except `about`, identify the estimator. A file of `families` declares the
    estimator; `tests/estimators/test_declarations.py` checks that no required field is left out.
    """

    id: str  # value of `--estimators`
    base: str = ""  # map from which the form is computed; equal to the id if a declaration leaves it out
    form: str = "base"  # operation on the base map: `base` (none), `squared`, or an ensemble over noisy copies
    about: str = _make_unhashed_field("")  # one phrase without a full stop
    control: bool = False  # the estimator ignores the model
    # increases with every change of the estimator's definition. The default must stay 1, because hashes omit defaults
    version: int = 1
    twin: str = ""  # kind of twin, one of `TWINS`; empty for other estimators
    # parameters whose values differ from the defaults, in the order of `PARAMETERS`
    values: tuple[tuple[str, Value], ...] = ()
    title: str = _make_unhashed_field("")  # name for readers
    # function that makes importance maps, (n, c, h, w) or (n, 1, h, w). None for submissions, for `random-redrawn`, and
    # for the 18 estimators of Hooker et al. 2019, which the shared pass computes
    maps: Callable[[MapInput], Tensor] | None = _make_unhashed_field(None)
    # parameters that the id may contain, with their defaults
    parameters: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)
    # passes per image, or a function that computes them from the estimator and an image's number of features. None for
    # controls and for estimators of the shared pass
    cost: Passes | Callable[[Estimator, int], Passes] | None = _make_unhashed_field(None)
    # whether `cost` assumes a number of channels of the network, which differs between networks
    cost_is_assumed: bool = _make_unhashed_field(False)
    # BibTeX keys of the publications of the base map and the form, in `data/papers.bib`; () if unpublished
    papers: tuple[str, ...] | None = _make_unhashed_field(None)
    # True if the estimator needs neighbouring features, or gives one number for all channels; it then does not apply to
    # tables, whose columns are the channels of one pixel
    neighbours: bool | None = _make_unhashed_field(None)
    # whether `--estimators` may add the estimator to suites that do not name the estimator
    addable: bool = _make_unhashed_field(True)
    # whether the estimator uses information that no image contains; other estimators then need not beat it
    uses_ground_truth: bool = _make_unhashed_field(False)
    # whether the control uses the class that the explained network predicts, so that its maps differ between networks
    uses_prediction: bool = _make_unhashed_field(False)
    # whether the default of `samples` is too small for convergence, so that tables show the number
    few_samples: bool = _make_unhashed_field(False)
    most_features: int = _make_unhashed_field(0)  # maximum features per image; 0 for any number
    # whether a pass holds each image together with its baseline, so that a batch takes the memory of two batches
    passes_baseline: bool = _make_unhashed_field(False)
    # whether `maps` traces the network's own modules, so that the network must not be wrapped in another module
    traces_network: bool = _make_unhashed_field(False)
    module: str = _make_unhashed_field("")  # file of `families` that declares the estimator

    @cached_property
    def fingerprint(self) -> str:
        """Return the hash of the fields that determine the maps."""
        # the id contains the hash of the submission's file, and the file determines the maps
        if self.submitted and not self.twin:
            return hash_value({"id": self.id, "version": self.version})
        identity = ("id", "base", "control", "version", "twin")
        values = {"form": self.form} | {key: value for key, value in make_json_record(self).items() if key in identity}
        values |= {"ig_steps": IG_STEPS, "noise": NOISE, "samples": SAMPLES, "blur": BLUR, "seed": SEED}
        # hashes of published rows: those of controls omit `baseline`, and those of searches omit `order`, because the
        # estimators are older than these parameters
        if not self.uses_shared_pass:
            later = "baseline" if self.control else "order"
            values |= {key: value for key, value in self.parameters.items() if key != later}
        return hash_value(values | {"ig_steps" if name == "steps" else name: value for name, value in self.values})

    @property
    def parsed_id(self) -> EstimatorId:
        return EstimatorId.parse(self.id)

    @property
    def id_without_last_twin(self) -> str:
        """Return the id of the estimator or twin from which a twin was made; the id itself if this is no twin."""
        return str(self.parsed_id.parent)

    @cached_property
    def untwinned_id(self) -> str:
        return str(self.parsed_id.untwinned)

    @property
    def explained_variant(self) -> str:
        """Return the kind of twin if it explains another model or class (one of `VARIANTS`), else `trained`."""
        return self.twin if self.twin in VARIANTS else "trained"

    @property
    def submitted(self) -> bool:
        return self.base == SUBMISSION

    @property
    def is_search(self) -> bool:
        return self.base == SEARCH

    @property
    def search(self) -> Search | None:
        """Return passes and order of a blind search; None for every other row, also for twins of a search."""
        is_row = self.is_search and not self.twin
        return Search(self.get_integer("passes"), Order(str(self.get_value("order")))) if is_row else None

    @property
    def is_control_or_search(self) -> bool:
        """Return whether the row is a yardstick for others: it ignores the network, or asks it blindly."""
        return self.control or self.is_search

    @property
    def uses_shared_pass(self) -> bool:
        """Return whether shared passes compute the maps, as those of the 18 estimators of Hooker et al. 2019."""
        return not (self.control or self.has_own_passes)

    @property
    def has_own_passes(self) -> bool:
        """Return whether the estimator explains a model, in its own passes instead of the shared pass."""
        return self.submitted or (self.maps is not None and not self.control)

    @property
    def shared_pass_settings(self) -> SharedPassSettings:
        return SharedPassSettings(**{**self.parameters, **dict(self.values)})  # type: ignore[arg-type]

    @property
    def job_group(self) -> str:
        """Return the name of the group of estimators whose maps one job computes.

        The controls that use the predicted class form the group `answered`, and all other controls the group
        `controls`. The estimators of the shared pass are grouped by their explained variant. A submission, or another
        estimator with its own passes, has its own job, so that its failure affects no other estimator; the job computes
        the estimator's map and the map of its blurred twin in one call. Searches of all lengths share a job.
        """
        if self.is_search and self.explained_variant == "trained":
            return SEARCH
        if self.has_own_passes:
            return self.id_without_last_twin if self.explained_variant == "trained" else self.id
        if self.control:
            return "answered" if self.uses_prediction else "controls"
        return self.explained_variant

    @property
    def depends_on_network(self) -> bool:
        """Return whether the maps depend on the network itself or on the network's prediction."""
        return self.uses_prediction or not self.control

    @property
    def uses_neighbouring_features(self) -> bool:
        """Return whether the estimator uses neighbouring features; a blurred map or baseline uses them, too."""
        return bool(self.neighbours) or self.twin == "blurred" or dict(self.values).get("baseline") == "blur"

    @property
    def has_own_map(self) -> bool:
        """Return whether the estimator has its own maps; `random-redrawn` and twins that reuse maps have none."""
        return self.form != "redrawn" and self.twin not in UNRANKED_TWINS

    @property
    def is_control_to_beat(self) -> bool:
        """Return whether the estimator is a control that uses at most the predicted class of the network.

        An estimator *beats every control* if it is significantly better than each of these controls. Not among them are
        twins other than `random-blurred`, `random-redrawn`, and controls that use the ground truth.
        """
        return self.control and self.has_own_row and not self.uses_ground_truth

    @property
    def has_control_verdict(self) -> bool:
        """Return whether the verdict on the row is `control`: it is a control to beat, or a blind search."""
        return self.is_control_to_beat or self.search is not None

    @property
    def has_own_row(self) -> bool:
        """Return whether the estimator has its own row; twins and `random-redrawn` only test another estimator."""
        return self.id in CONTROLS or (self.has_own_map and not self.twin)

    def get_value(self, name: str) -> Value:
        """Return the value of a parameter: the value in the id, or else the default."""
        return {**self.parameters, **dict(self.values)}[name]

    def get_integer(self, name: str) -> int:
        return int(self.get_value(name))


class ClassImages(NamedTuple):
    """One image per class, computed from training images without the explained network.

    Both tensors are float32 (classes, c, h, w), in the range of normalised images.
    """

    means: Tensor  # mean image of each class minus the mean of all images
    weights: Tensor  # weights of a linear classifier of thumbnails (6 x 6 pixels), enlarged to the size of the images

    def to(self, device: torch.device) -> ClassImages:
        return ClassImages(self.means.to(device), self.weights.to(device))


class Batch(NamedTuple):
    """Images, targets and all other data that estimators and controls may use, except the model."""

    images: Tensor  # float32 (n, c, h, w), normalised; float64 gives float64 maps
    targets: Tensor  # int64 (n,), the classes to explain
    # int64 (n,), each image's number in the data set, unique over both splits; it seeds the image's random numbers
    ids: Tensor
    # planted data's true importance, (n, c, h, w), larger = more important; None for other data
    truth: Tensor | None = None
    class_images: ClassImages | None = None  # class statistics of the training images; None if no control needs them
    seed: int = 0  # seed with which the explained network was trained, for the controls of `planted-corners`

    def to(self, device: torch.device) -> Batch:
        """Copy the batch to a device; `ids` stays on the CPU, where random numbers are drawn."""
        truth = None if self.truth is None else self.truth.to(device)
        class_images = None if self.class_images is None else self.class_images.to(device)
        return Batch(self.images.to(device), self.targets.to(device), self.ids, truth, class_images, self.seed)

    def select_rows(self, rows: slice | list[int]) -> Batch:
        """Return these rows of the batch."""
        truth = None if self.truth is None else self.truth[rows]
        return Batch(self.images[rows], self.targets[rows], self.ids[rows], truth, self.class_images, self.seed)


class MapInput(NamedTuple):
    """Input of a function that computes an estimator's maps."""

    estimator: Estimator
    batch: Batch
    black: Tensor  # float (c, 1, 1), the black pixel, normalised
    network: nn.Module | None = None  # explained network, which returns logits, in eval mode; None for controls

    @property
    def images(self) -> Tensor:
        """Return the images, float (n, c, h, w), normalised."""
        return self.batch.images

    @property
    def model(self) -> nn.Module:
        """Return the network."""
        assert self.network is not None, "a control does not use the network"
        return self.network

    @property
    def baseline(self) -> Tensor:
        """Return one baseline per image, (n, c, h, w), as set by the estimator's parameter `baseline`."""
        return make_baseline_images(str(self.estimator.get_value("baseline")), self.images, self.black)

    def compute_logit(self, images: Tensor) -> Tensor:
        """Return the target logits, (n, 1), of modified images, (n, c, h, w)."""
        logit: Tensor = self.model(images).gather(1, self.batch.targets[:, None])
        return logit


def make_image_ids(split: Split, start: int, stop: int) -> Tensor:
    """Return the ids of images `start` to `stop - 1` of a split, int64; no two images of the splits share an id."""
    return torch.arange(start, stop) + (TEST_IDS if split is Split.TEST else 0)


def make_baseline_images(name: str, images: Tensor, black: Tensor) -> Tensor:
    """Return the baseline of each image, float (n, c, h, w), normalised, as a new tensor.

    Args:
        name: `black` for black images, `mean` for the mean colour of the training images, which is 0 after
            normalisation, or `blur` for the images after a Gaussian blur.
        images: Float (n, c, h, w), normalised.
        black: The black pixel, normalised, (c, 1, 1).
    """
    if name == "black":
        return torch.empty_like(images).copy_(black)
    return torch.zeros_like(images) if name == "mean" else blur(images)


def blur(importance: Tensor, width: float = BLUR) -> Tensor:
    """Blur each channel of a map (n, c, h, w) with a Gaussian, which adds no information (Song et al. 2023).

    The standard deviation is `width` times the side; `width` is at most 0.2. The kernel is cut off at 4 standard
    deviations, and the map is mirrored at its border (Song et al., arXiv 2304.13836).
    """
    h, w = importance.shape[2:]
    return _make_blur_matrix(h, width, importance).T @ importance @ _make_blur_matrix(w, width, importance)


def _make_blur_matrix(side: int, width: float, like: Tensor) -> Tensor:
    """Return the blur along one side as a matrix (side, side): row i is the blurred unit impulse at position i."""
    sigma = width * side
    radius = min(round(4 * sigma), side - 1)  # mirroring adds at most `side` - 1 pixels
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (offsets / sigma) ** 2)
    lines = F.pad(torch.eye(side, dtype=torch.float64)[:, None], (radius, radius), mode="reflect")
    return F.conv1d(lines, (kernel / kernel.sum())[None, None])[:, 0].to(like)
