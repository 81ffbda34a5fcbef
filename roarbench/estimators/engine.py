"""Compute the importance maps of a batch; the paper's 18 estimators share passes, and others have their own passes."""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.common.device_settings import (
    choose_float32_layout,
    is_out_of_memory,
    keep_freed_cpu_memory,
    use_exact_float32,
)
from roarbench.common.enums import Precision
from roarbench.common.errors import MachineError
from roarbench.common.restore_process_settings import restore_after_last_exit
from roarbench.estimators.catalogue import Form, find_shared_pass_settings, list_plain_and_noisy_bases
from roarbench.estimators.estimator import NOISY, PAPERS, SEED, Batch, Estimator, MapInput, SharedPassSettings, blur
from roarbench.estimators.families.gradients import ReportLogits, compute_base_maps
from roarbench.estimators.faster_networks import convert_precision
from roarbench.estimators.noise_and_random_draws import compute_noise_scale, draw_normal_noise

# forms that need no noisy copies
SINGLE: dict[str, Callable[[Tensor], Tensor]] = {"base": lambda g: g, "squared": torch.square}
# maximum images per pass; the number is fixed, because the rounding of convolutions depends on the batch size
IMAGES_PER_PASS = 64
Maps = dict[str, Tensor]  # from an estimator's id to its maps
_ENOUGH = 256 * 3 * 224**2  # features per pass that keep a large GPU busy; more features make a pass no faster
_use_eager_mode = restore_after_last_exit(lambda: torch.compiler.set_stance("force_eager"))


class RunningMoments:
    """Running mean and sum of squared deviations (Welford 1962), in memory that does not grow with the samples."""

    def __init__(self, shape: Tensor) -> None:
        self.count = 0
        self.mean = torch.zeros_like(shape)
        self.deviations = torch.zeros_like(shape)

    def add(self, sample: Tensor) -> None:
        """Add one sample."""
        self.count += 1
        step = sample - self.mean
        self.mean.add_(step, alpha=1 / self.count)
        self.deviations.addcmul_(step, step, value=1 - 1 / self.count)

    def compute_form(self, name: str) -> Tensor:
        """Compute an ensemble form, such as `variance`, by its name (docs/protocol.md, section 3)."""
        variance = self.deviations / self.count
        forms = {
            "smooth": self.mean,
            "smooth-squared": self.mean**2,
            "smoothed-square": variance + self.mean**2,
            "variance": variance,
        }
        return forms[name]


def prefetch(items: Iterator[Tensor]) -> Iterator[Tensor]:
    """Yield the items; a thread makes the next item while the caller uses one, so a GPU need not wait for noise."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


class ModelMaps(NamedTuple):
    """Maps of one model."""

    maps: dict[Form, Tensor]  # from each requested form to its maps, float (n, c, h, w)
    # number of each image's noisy copies that the model assigns to the target class, int64 (n,); 0 if there are no
    # noisy copies. Other points on the paths of integrated gradients do not count
    stable_copies: Tensor


class MapRequest(NamedTuple):
    """Forms of maps to compute for one model, and the images to explain."""

    wanted: Set[Form]  # (base, form) pairs
    model: nn.Module  # in eval mode; returns logits
    batch: Batch  # images with the classes to explain
    black: Tensor  # float (c, 1, 1), the black pixel, normalised
    settings: SharedPassSettings = PAPERS  # parameters of noisy copies and of integrated gradients' path


def compute_shared_pass_maps(requests: Sequence[MapRequest]) -> list[ModelMaps]:
    """Compute the requested maps in the fewest passes: 400 forward and 416 backward for the paper's 18 estimators.

    All requests must have the same images and image numbers, so that the noise is drawn once. The maps of one request
    do not depend on the other requests.
    """
    running = [_RunningMaps(request) for request in requests]
    first = requests[0].batch
    samples = max(model_run.samples for model_run in running)
    for j, draws in enumerate(prefetch(draw_normal_noise(first.images, first.ids, j, SEED) for j in range(samples))):
        for model_run in running:
            if j < model_run.samples:
                model_run.add_noisy_copy(draws)
    return [model_run.finish() for model_run in running]


class _RunningMaps:
    """Maps of one request in progress: maps of the images themselves, and running moments over noisy copies."""

    def __init__(self, request: MapRequest) -> None:
        self._request = request
        images = request.batch.images
        self._images = images.contiguous(memory_format=choose_float32_layout(images.device))
        single, self._repeated = list_plain_and_noisy_bases(request.wanted)
        self.samples = request.settings.samples if self._repeated else 0
        self._clean = self._compute_bases(self._images, single)
        self._scale = compute_noise_scale(self._images, request.settings.noise)
        self._moments = {base: RunningMoments(self._images) for base in self._repeated}
        self._stable_copies = torch.zeros_like(request.batch.targets)

    def add_noisy_copy(self, draws: Tensor) -> None:
        """Add one noisy copy of every image."""
        copies = self._scale.mul(draws).add_(self._images)
        for base, sample in self._compute_bases(copies, self._repeated, self._count_stable_copies).items():
            self._moments[base].add(sample)

    def _compute_bases(
        self, images: Tensor, bases: Set[str], report_logits: ReportLogits = lambda logits: None
    ) -> dict[str, Tensor]:
        model, batch, black = self._request.model, self._request.batch, self._request.black
        return compute_base_maps(model, images, batch.targets, black, bases, report_logits, self._request.settings)

    def _count_stable_copies(self, logits: Tensor) -> None:
        self._stable_copies.add_(logits.argmax(1) == self._request.batch.targets)

    def finish(self) -> ModelMaps:
        """Return the maps after all noisy copies were added."""
        wanted = self._request.wanted
        forms = {(base, form): self._moments[base].compute_form(form) for base, form in wanted if form not in SINGLE}
        forms |= {(base, form): SINGLE[form](self._clean[base]) for base, form in wanted if form in SINGLE}
        return ModelMaps(forms, self._stable_copies)


def compute_importance_maps(
    estimators: Sequence[Estimator],
    model: nn.Module | None,
    batch: Batch,
    black: Tensor,
    precision: Precision = Precision.FLOAT32,
) -> Maps:
    """Compute the importance maps of these estimators for one batch.

    All estimators must have the same `Estimator.explained_variant`, because they share one model and one target per
    image. For `untrained` the caller passes the network with random weights, for `other-target` a batch with other
    targets. Controls need no model.

    If memory runs out, the batch is halved until it fits. Halving changes a map only by the rounding of convolutions,
    which depends on the batch size; the rounding moves a few features across a removal threshold.

    Args:
        estimators: Estimators of one variant.
        model: The explained network, in eval mode; None for controls.
        batch: Images, targets and image numbers.
        black: The black pixel, normalised, float (c, 1, 1).
        precision: Precision of the model's passes; torch emulates a precision that the hardware lacks. Sums over noisy
            copies and along paths keep the dtype of the images.

    Returns:
        A dict from each estimator's id to its maps, (n, c, h, w), in the images' dtype; larger is more important.

    Raises:
        ValueError: The model is in training mode, in which batch norm mixes images.
        CallerError: The estimators do not suit the model or the data.
        MachineError: Memory runs out with a single image.
    """
    (maps,) = compute_maps_of_subjects([MapSubject(estimators, model, batch, black)], precision)
    return maps


class MapSubject(NamedTuple):
    """Arguments of `compute_importance_maps`: estimators of one variant, model, batch and black pixel."""

    estimators: Sequence[Estimator]
    model: nn.Module | None
    batch: Batch
    black: Tensor


def compute_maps_of_subjects(
    subjects: Sequence[MapSubject],
    precision: Precision = Precision.FLOAT32,
    report_passes: Callable[[list["PassNotes"]], object] = lambda explained: None,
) -> list[Maps]:
    """Compute the maps of each subject, bit for bit as `compute_importance_maps` does, but draw the noise only once.

    All subjects must have the same images and image numbers; models, targets and normalisation may differ. If memory
    runs out, the images pass through the models in several groups; after each group, `report_passes` is called with the
    `PassNotes` of all subjects. Raises the errors of `compute_importance_maps`, and ValueError if the image numbers
    differ.
    """
    _check_eval_mode_and_images(subjects)

    def compute(rows: slice) -> list[Maps]:
        parts = [s._replace(batch=s.batch.select_rows(rows), black=s.black.to(s.batch.images)) for s in subjects]
        maps, stable_copies = _compute_maps(parts, precision)
        report_passes([PassNotes(rows.stop - rows.start, counts) for counts in stable_copies])
        return maps

    keep_freed_cpu_memory()
    with use_exact_eager_mode():
        return _compute_in_halves(compute, slice(0, len(subjects[0].batch.ids)), subjects[0].batch.images.shape[1:])


def _check_eval_mode_and_images(subjects: Sequence[MapSubject]) -> None:
    models = [subject.model for subject in subjects if subject.model is not None]
    # a frozen script has no attribute `training`
    if any(getattr(module, "training", False) for model in models for module in model.modules()):
        raise ValueError("the model must be in eval mode to be explained, got training mode; call model.eval()")
    ids = subjects[0].batch.ids
    if not all(torch.equal(subject.batch.ids, ids) for subject in subjects[1:]):
        raise ValueError("batches of several models must have the same images, got different image numbers")


class PassNotes(NamedTuple):
    """Facts about one group of images that passed through a model together."""

    images: int  # number of images in the group
    # from the id of each estimator with noisy copies to `ModelMaps.stable_copies`, int64 (n,)
    stable_copies: dict[str, Tensor]


@contextmanager
def use_exact_eager_mode() -> Iterator[None]:
    """Use float32 without TF32 and no compiled code in all threads, until the last of these blocks is left."""
    # hooks and rules of estimators have no effect in compiled code. The stance is set only if torch's compiler has been
    # imported already, because importing it takes seconds
    eager = _use_eager_mode() if "torch._dynamo" in sys.modules else nullcontext()
    with use_exact_float32(), eager:
        yield


def count_fitting_images(free: float, activations: int, shape: tuple[int, int, int], estimators: int) -> int:
    """Estimate how many images fit into one pass on a GPU: a power of two, so that the GPU rarely changes the number.

    Args:
        free: Free bytes; the estimate uses half of them, because training images may occupy the rest. A batch that
            turns out too large is halved later.
        activations: Number of outputs of the network's layers for one image.
        shape: Channels, height and width of an image.
        estimators: Number of maps in memory, with their running moments.
    """
    features = math.prod(shape)
    image_bytes = 4 * (2 * activations + (8 + 3 * estimators) * features)  # bytes of the forward and backward pass
    most = min(free / 2 / image_bytes, _ENOUGH / features)
    return 1 << int(math.log2(max(most, 1)))


def _compute_maps(subjects: Sequence[MapSubject], precision: Precision) -> tuple[list[Maps], list[dict[str, Tensor]]]:
    """Return each subject's maps and its `PassNotes.stable_copies`, both as dicts from estimators' ids."""
    requests: dict[tuple[int, SharedPassSettings], MapRequest] = {}
    for number, (estimators, model, batch, black) in enumerate(subjects):
        explaining = [e for e in estimators if e.uses_shared_pass]
        for settings in dict.fromkeys(map(find_shared_pass_settings, explaining)):
            assert model is not None, "estimators other than controls need a model"
            alike = {(e.base, e.form) for e in explaining if find_shared_pass_settings(e) == settings}
            requests[number, settings] = MapRequest(alike, convert_precision(model, precision), batch, black, settings)
    by_settings: list[dict[SharedPassSettings, ModelMaps]] = [{} for _ in subjects]
    model_maps = compute_shared_pass_maps(list(requests.values())) if requests else []
    for (number, settings), maps in zip(requests, model_maps, strict=True):
        by_settings[number][settings] = maps
    maps_by_subject, stable_copies = [], []
    for subject, shared in zip(subjects, by_settings, strict=True):
        noisy = [e for e in subject.estimators if not e.control and e.form in NOISY]
        maps_by_subject.append(_collect_maps(subject, shared))
        stable_copies.append({e.id: shared[find_shared_pass_settings(e)].stable_copies for e in noisy})
    return maps_by_subject, stable_copies


def _collect_maps(subject: MapSubject, by_settings: Mapping[SharedPassSettings, ModelMaps]) -> Maps:
    """Return the maps of one subject by estimator id; `by_settings` holds its shared-pass maps by their settings."""
    maps: Maps = {}
    own_maps: dict[object, Tensor] = {}  # an estimator and its blurred twin have the same key
    for e in subject.estimators:
        key = e.base, e.form, e.values
        if e.uses_shared_pass:
            maps[e.id] = by_settings[find_shared_pass_settings(e)].maps[e.base, e.form]
        else:
            if key not in own_maps:
                own_maps[key] = compute_map_outside_shared_pass(e, subject)
            maps[e.id] = own_maps[key]
        if e.twin == "blurred":
            maps[e.id] = blur(maps[e.id])
    return maps


@torch.no_grad()
def compute_map_outside_shared_pass(estimator: Estimator, subject: MapSubject) -> Tensor:
    """Compute the maps of a control, or of an estimator with its own passes, float (n, c, h, w).

    The passes and the maps have the images' dtype, because differences of logits need full precision. A map with one
    channel is repeated for all channels. Raises RunError if the network lacks a layer or operation that the estimator
    needs.
    """
    assert estimator.maps is not None, "the shared pass computes the maps of estimators without a function"
    images, map_input = subject.batch.images, MapInput(estimator, subject.batch, subject.black)
    if not estimator.control:
        contiguous = images.contiguous(memory_format=choose_float32_layout(images.device))
        map_input = map_input._replace(batch=subject.batch._replace(images=contiguous), network=subject.model)
    return estimator.maps(map_input).detach().expand_as(images).to(images.dtype).contiguous()


def _compute_in_halves(compute: Callable[[slice], list[Maps]], rows: slice, shape: torch.Size) -> list[Maps]:
    try:
        return compute(rows)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        if rows.stop - rows.start == 1:
            seen = f"out of memory with one image of {' x '.join(map(str, shape))}"
            raise MachineError(f"{seen}; use a smaller network or free memory") from error
    middle = (rows.start + rows.stop) // 2
    halves = [
        _compute_in_halves(compute, part, shape) for part in (slice(rows.start, middle), slice(middle, rows.stop))
    ]
    return [
        {name: torch.cat([first[name], second[name]]) for name in first} for first, second in zip(*halves, strict=True)
    ]


def find_job_group(estimator: Estimator) -> str:
    """Return the name of the group of estimators whose maps one job computes.

    The controls that use the predicted class form the group `answered`, and all other controls the group `controls`.
    The estimators of the shared pass are grouped by their explained variant. A submission, or another estimator with
    its own passes, has its own job, so that its failure affects no other estimator; the job computes the estimator's
    map and that of its blurred twin in one call.
    """
    if estimator.has_own_passes:
        return estimator.parent_id if estimator.explained_variant == "trained" else estimator.id
    if estimator.control:
        return "answered" if estimator.uses_prediction else "controls"
    return estimator.explained_variant
