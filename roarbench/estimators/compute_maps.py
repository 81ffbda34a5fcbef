"""Compute the importance maps of a batch, and halve the batch if memory runs out.

Shared passes compute the maps of the 18 estimators of Hooker et al. 2019, for images and their noisy copies.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.common.device_settings import choose_fastest_float32_layout, is_out_of_memory, use_exact_float32
from roarbench.common.enums import Precision
from roarbench.common.errors import MachineError
from roarbench.common.process_settings import allow_threads_to_overlap, keep_freed_cpu_memory
from roarbench.estimators.catalogue import BaseAndForm, list_plain_and_noisy_bases
from roarbench.estimators.estimator import (
    NOISY,
    PAPER_SETTINGS,
    SEED,
    Batch,
    Estimator,
    MapInput,
    SharedPassSettings,
    blur,
    make_baseline_images,
)
from roarbench.estimators.families.gradients import ReportLogits, compute_logit_gradients
from roarbench.estimators.families.search import search_by_length
from roarbench.estimators.network_copies import SplitStem, convert_precision
from roarbench.estimators.random_draws import compute_noise_scale, draw_normal_noise

_FORMS_WITHOUT_NOISE: dict[str, Callable[[Tensor], Tensor]] = {"base": lambda g: g, "squared": torch.square}


class MapRequest(NamedTuple):
    """Forms of maps to compute for one model, and the images to explain."""

    wanted: Set[BaseAndForm]
    model: nn.Module  # in eval mode; returns logits
    batch: Batch  # images with the classes to explain
    black: Tensor  # float (c, 1, 1), the black pixel, normalised
    settings: SharedPassSettings = PAPER_SETTINGS


class SharedPassMaps(NamedTuple):
    """Maps of one request."""

    maps: dict[BaseAndForm, Tensor]  # float (n, c, h, w)
    # number of each image's noisy copies that the model assigns to the target class, int64 (n,); 0 if there are no
    # noisy copies. Other points on the paths of integrated gradients do not count
    stable_copies: Tensor


def compute_shared_pass_maps(requests: Sequence[MapRequest]) -> list[SharedPassMaps]:
    """Compute the requested maps in the fewest passes: 400 forward and 416 backward for the paper's 18 estimators.

    All requests must have the same images and image numbers, so that the noise is drawn once. The maps of one request
    do not depend on the other requests.
    """
    running = [_RunningMaps(request) for request in requests]
    first = requests[0].batch
    samples = max(maps.samples for maps in running)
    # for each request, the first request with the same noisy copies; networks with the same normalisation share them
    sources = [next(other for other in running if maps.has_copies_of(other)) for maps in running]
    for j, noise in enumerate(prefetch(draw_normal_noise(first.images, first.ids, j, SEED) for j in range(samples))):
        copies: dict[int, Tensor] = {}
        for maps, source in zip(running, sources, strict=True):
            if j < maps.samples:
                if id(source) not in copies:
                    copies[id(source)] = source.scale.mul(noise).add_(source.images)
                maps.add_noisy_copies(copies[id(source)])
    return [maps.finish() for maps in running]


def prefetch(items: Iterator[Tensor]) -> Iterator[Tensor]:
    """Yield the items; a thread makes the next item while the caller uses one, so a GPU need not wait for noise."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


class _RunningMaps:
    """Maps of one request in progress: maps of the images themselves, and running moments over noisy copies."""

    def __init__(self, request: MapRequest) -> None:
        self._request = request
        images = request.batch.images
        self.images = images.contiguous(memory_format=choose_fastest_float32_layout(images.device))
        plain, self._noisy_bases = list_plain_and_noisy_bases(request.wanted)
        self.samples = request.settings.samples if self._noisy_bases else 0
        self._plain_maps = compute_base_maps(request, self.images, plain)
        self.scale = compute_noise_scale(self.images, request.settings.noise)
        self._moments = {base: RunningMoments(self.images) for base in self._noisy_bases}
        self._stable_copies = torch.zeros_like(request.batch.targets)

    def has_copies_of(self, other: "_RunningMaps") -> bool:
        """Return whether noisy copies of both are known to be equal; a GPU would wait for a comparison of values."""
        if self._request.settings.noise != other._request.settings.noise:
            return False
        same = self._request.batch.images is other._request.batch.images
        return same or (self.images.device.type == "cpu" and torch.equal(self.images, other.images))

    def add_noisy_copies(self, copies: Tensor) -> None:
        """Add the maps of one noisy copy of every image."""

        def count_stable(logits: Tensor) -> None:
            self._stable_copies.add_(logits.argmax(1) == self._request.batch.targets)

        for base, sample in compute_base_maps(self._request, copies, self._noisy_bases, count_stable).items():
            self._moments[base].add(sample)

    def finish(self) -> SharedPassMaps:
        """Return the maps after all noisy copies were added."""
        maps = {}
        for base, form in self._request.wanted:
            plain = _FORMS_WITHOUT_NOISE.get(form)
            maps[base, form] = plain(self._plain_maps[base]) if plain else self._moments[base].compute_form(form)
        return SharedPassMaps(maps, self._stable_copies)


class RunningMoments:
    """Running mean and sum of squared deviations (Welford 1962), in memory that does not grow with the samples."""

    def __init__(self, like: Tensor) -> None:
        self.count = 0
        self.mean = torch.zeros_like(like)
        self.deviations = torch.zeros_like(like)

    def add(self, sample: Tensor) -> None:
        """Add one sample."""
        self.count += 1
        step = sample - self.mean
        self.mean.add_(step, alpha=1 / self.count)
        self.deviations.addcmul_(step, step, value=1 - 1 / self.count)

    def compute_form(self, form: str) -> Tensor:
        """Compute a form over noisy copies, such as `variance` (docs/protocol.md, section 3)."""
        variance = self.deviations / self.count
        forms = {
            "smooth": self.mean,
            "smooth-squared": self.mean**2,
            "smoothed-square": variance + self.mean**2,
            "variance": variance,
        }
        return forms[form]


def compute_base_maps(
    request: MapRequest, images: Tensor, bases: Set[str], report_logits: ReportLogits = lambda logits: None
) -> dict[str, Tensor]:
    """Compute base maps of a request's images or of copies, float (n, c, h, w), signed, in as few passes as possible.

    Integrated gradients (Sundararajan et al. 2017) are (x - x0) times the mean of the gradients at the points
    x0 + i/25 (x - x0), i = 1..25, where x0 is the black image; the request's settings may have another number of points
    or another baseline. The last point is the image itself, so its gradient is also the map of the base `grad`. For
    integrated gradients, the stem of a `SplitStem` runs once for the images and once for the baselines. `report_logits`
    is called with the logits of the images themselves, (n, classes).
    """
    if not bases:
        return {}
    model, targets, settings = request.model, request.batch.targets, request.settings
    rules = {"gb" if base == "gb" else "grad" for base in bases}
    if "ig" not in bases:
        return compute_logit_gradients(model, images, targets, rules, report_logits)
    split = model if isinstance(model, SplitStem) else SplitStem(nn.Identity().eval(), model)
    with torch.enable_grad():
        inputs = images.detach().requires_grad_()
        outputs = split.stem(inputs)
    end, baseline = outputs.detach(), make_baseline_images(settings.baseline, images, request.black)
    with torch.no_grad():
        start = split.stem(baseline)
    gradients = compute_logit_gradients(split.rest, end, targets, rules, report_logits)
    total = gradients["grad"].clone()
    for i in range(1, settings.steps):
        point = torch.lerp(start, end, i / settings.steps)
        total += compute_logit_gradients(split.rest, point, targets, {"grad"})["grad"]

    def pass_back_through_stem(gradient: Tensor) -> Tensor:
        (image_gradient,) = torch.autograd.grad(outputs, inputs, grad_outputs=gradient, retain_graph=True)
        return image_gradient

    integrated = (images - baseline) * pass_back_through_stem(total) / settings.steps
    return {base: integrated if base == "ig" else pass_back_through_stem(gradients[base]) for base in bases}


# maximum images per pass; the number is fixed, because the rounding of convolutions depends on the batch size
IMAGES_PER_PASS = 64
Maps = dict[str, Tensor]  # from an estimator's id to its maps
_ENOUGH = 256 * 3 * 224**2  # features per pass that keep a large GPU busy; more features make a pass no faster
_use_eager_mode = allow_threads_to_overlap(lambda: torch.compiler.set_stance("force_eager"))


class MapTask(NamedTuple):
    """Estimators of one `Estimator.explained_variant`, with the model and the images that they explain."""

    estimators: Sequence[Estimator]
    model: nn.Module | None  # explained network, in eval mode; None for controls
    batch: Batch
    black: Tensor  # float (c, 1, 1), the black pixel, normalised


class PassReport(NamedTuple):
    """Facts about one group of images that passed through a model together."""

    images: int  # number of images in the group
    # from the id of each estimator with noisy copies to `SharedPassMaps.stable_copies`, int64 (n,)
    stable_copies: dict[str, Tensor]


def compute_importance_maps(
    estimators: Sequence[Estimator],
    model: nn.Module | None,
    batch: Batch,
    black: Tensor,
    precision: Precision = Precision.FLOAT32,
) -> Maps:
    """Compute the importance maps of these estimators for one batch; the arguments are the fields of a `MapTask`.

    All estimators must have the same `Estimator.explained_variant`, because they share one model and one target per
    image. For `untrained` the caller passes the network with random weights, for `other-target` a batch with other
    targets.

    If memory runs out, the batch is halved until it fits. Halving changes a map only by the rounding of convolutions,
    which depends on the batch size; the rounding moves a few features across a removal threshold.

    `precision` is that of the model's passes; torch emulates a precision that the hardware lacks. Sums over noisy
    copies and along paths keep the dtype of the images.

    Returns:
        A dict from each estimator's id to its maps, (n, c, h, w), in the images' dtype; larger is more important.

    Raises:
        ValueError: The model is in training mode, in which batch norm mixes images.
        CallerError: The estimators do not suit the model or the data.
        MachineError: Memory runs out with a single image.
    """
    (maps,) = compute_maps_of_tasks([MapTask(estimators, model, batch, black)], precision)
    return maps


def compute_maps_of_tasks(
    tasks: Sequence[MapTask],
    precision: Precision = Precision.FLOAT32,
    report_passes: Callable[[list[PassReport]], object] = lambda reports: None,
) -> list[Maps]:
    """Compute the maps of each task, bit for bit as `compute_importance_maps` does, but draw the noise only once.

    All tasks must have the same images and image numbers; models, targets and normalisation may differ. If memory runs
    out, the images pass through the models in several groups; after each group, `report_passes` is called with one
    report per task. Raises the errors of `compute_importance_maps`, and ValueError if the image numbers differ.
    """
    models = [task.model for task in tasks if task.model is not None]
    # a frozen script has no attribute `training`
    if any(getattr(module, "training", False) for model in models for module in model.modules()):
        raise ValueError("the model must be in eval mode to be explained, got training mode; call model.eval()")
    ids = tasks[0].batch.ids
    if not all(torch.equal(task.batch.ids, ids) for task in tasks[1:]):
        raise ValueError("batches of several models must have the same images, got different image numbers")

    def compute(rows: slice) -> list[Maps]:
        count = rows.stop - rows.start
        # a single image passes twice, as its gradient alone may be wrong (findings/torch-batch-norm-of-one-image.sh)
        taken = [rows.start, rows.start] if count == 1 else rows
        parts = [t._replace(batch=t.batch.select_rows(taken), black=t.black.to(t.batch.images)) for t in tasks]
        found = _compute_maps(parts, precision)
        maps, stable_copies = ([{name: own[name][:count] for name in own} for own in part] for part in found)
        report_passes([PassReport(count, counts) for counts in stable_copies])
        return maps

    keep_freed_cpu_memory()
    with use_exact_eager_mode():
        return _compute_in_halves(compute, slice(0, len(tasks[0].batch.ids)), tasks[0].batch.images.shape[1:])


@contextmanager
def use_exact_eager_mode() -> Iterator[None]:
    """Use float32 without TF32 and no compiled code in all threads, until the last of these blocks is left."""
    # hooks and rules of estimators have no effect in compiled code. The stance is set only if torch's compiler has been
    # imported already, because importing it takes seconds
    eager = _use_eager_mode() if "torch._dynamo" in sys.modules else nullcontext()
    with use_exact_float32(), eager:
        yield


def _compute_in_halves(compute: Callable[[slice], list[Maps]], rows: slice, shape: torch.Size) -> list[Maps]:
    """Return `compute(rows)`; if memory runs out, compute each half of the rows alone and join the maps."""
    try:
        return compute(rows)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        if rows.stop - rows.start == 1:
            seen = f"out of memory with one image of {' x '.join(map(str, shape))}"
            raise MachineError(f"{seen}; use a smaller network or free memory") from error
    middle = (rows.start + rows.stop) // 2
    first_half = _compute_in_halves(compute, slice(rows.start, middle), shape)
    second_half = _compute_in_halves(compute, slice(middle, rows.stop), shape)
    return [
        {name: torch.cat([first[name], second[name]]) for name in first}
        for first, second in zip(first_half, second_half, strict=True)
    ]


def _compute_maps(tasks: Sequence[MapTask], precision: Precision) -> tuple[list[Maps], list[dict[str, Tensor]]]:
    """Return each task's maps and its `PassReport.stable_copies`, both as dicts from estimators' ids."""
    requests: dict[tuple[int, SharedPassSettings], MapRequest] = {}
    for number, (estimators, model, batch, black) in enumerate(tasks):
        sharing = [estimator for estimator in estimators if estimator.uses_shared_pass]
        for settings in dict.fromkeys(estimator.shared_pass_settings for estimator in sharing):
            assert model is not None, "estimators other than controls need a model"
            wanted = {(e.base, e.form) for e in sharing if e.shared_pass_settings == settings}
            requests[number, settings] = MapRequest(wanted, convert_precision(model, precision), batch, black, settings)
    shared_pass_maps = compute_shared_pass_maps(list(requests.values())) if requests else []
    by_request = dict(zip(requests, shared_pass_maps, strict=True))
    maps_by_task, stable_copies = [], []
    for number, task in enumerate(tasks):
        own_maps, maps = _compute_maps_outside_shared_pass(task), Maps()
        for e in task.estimators:
            if e.uses_shared_pass:
                computed = by_request[number, e.shared_pass_settings].maps[e.base, e.form]
            else:
                computed = own_maps[e.base, e.form, e.values]
            maps[e.id] = blur(computed) if e.twin == "blurred" else computed
        maps_by_task.append(maps)
        noisy = [e for e in task.estimators if not e.control and e.form in NOISY]
        stable_copies.append({e.id: by_request[number, e.shared_pass_settings].stable_copies for e in noisy})
    return maps_by_task, stable_copies


@torch.no_grad()
def _compute_maps_outside_shared_pass(task: MapTask) -> dict[tuple[object, ...], Tensor]:
    """Compute the maps of controls, and of estimators with their own passes, float (n, c, h, w), by base, form, values.

    The passes and the maps have the images' dtype, because differences of logits need full precision. A map with one
    channel is repeated for all channels. A long search contains the shorter ones. Raises RunError if the network lacks
    a layer or operation that an estimator needs.
    """
    maps: dict[tuple[object, ...], Tensor] = {}
    rows: dict[tuple[object, ...], Estimator] = {}
    searches: dict[object, list[Estimator]] = {}
    for row in task.estimators:
        # a blurred twin has its parent's key
        is_first = not row.uses_shared_pass and rows.setdefault((row.base, row.form, row.values), row) is row
        if is_first and row.is_search:
            searches.setdefault((row.get_value("order"), row.get_value("baseline")), []).append(row)
    images = task.batch.images
    contiguous = images.contiguous(memory_format=choose_fastest_float32_layout(images.device))
    batch = task.batch._replace(images=contiguous)
    for same in searches.values():
        map_input = MapInput(same[0], batch, task.black, task.model)
        found = search_by_length(map_input, [row.get_integer("passes") for row in same])
        maps |= {(row.base, row.form, row.values): one.contiguous() for row, one in zip(same, found, strict=True)}
    for key, row in rows.items():
        if key not in maps:
            assert row.maps is not None, "the shared pass computes the maps of estimators without a function"
            control_input = MapInput(row, task.batch, task.black)
            map_input = control_input if row.control else MapInput(row, batch, task.black, task.model)
            maps[key] = row.maps(map_input).detach().expand_as(images).to(images.dtype).contiguous()
    return maps


def count_fitting_images(free: float, activations: int, shape: tuple[int, int, int], estimators: int) -> int:
    """Estimate how many images fit into one pass on a GPU: a power of two, so that the number rarely changes.

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
