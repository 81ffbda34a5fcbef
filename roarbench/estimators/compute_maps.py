"""Compute the importance maps of a batch, and halve the batch if memory runs out."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.common.device_settings import choose_fastest_float32_layout, is_out_of_memory, use_exact_float32
from roarbench.common.enums import Precision
from roarbench.common.errors import MachineError
from roarbench.common.process_settings import allow_threads_to_overlap, keep_freed_cpu_memory
from roarbench.estimators.estimator import NOISY, Estimator, SharedPassSettings
from roarbench.estimators.families.search import search_by_length
from roarbench.estimators.map_input import Batch, MapInput, blur
from roarbench.estimators.network_copies import convert_precision
from roarbench.estimators.shared_pass import MapRequest, compute_shared_pass_maps

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
        parts = [t._replace(batch=t.batch.select_rows(rows), black=t.black.to(t.batch.images)) for t in tasks]
        maps, stable_copies = _compute_maps(parts, precision)
        report_passes([PassReport(rows.stop - rows.start, counts) for counts in stable_copies])
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
        by_settings = {settings: maps for (owner, settings), maps in by_request.items() if owner == number}
        maps: Maps = {}
        searches = {e.values: e for e in task.estimators if e.is_search}  # an estimator and its twin have the same key
        own_maps = _compute_searches(list(searches.values()), task)
        for estimator in task.estimators:
            key = estimator.base, estimator.form, estimator.values
            if estimator.uses_shared_pass:
                maps[estimator.id] = by_settings[estimator.shared_pass_settings].maps[estimator.base, estimator.form]
            else:
                if key not in own_maps:
                    own_maps[key] = compute_map_outside_shared_pass(estimator, task)
                maps[estimator.id] = own_maps[key]
            if estimator.twin == "blurred":
                maps[estimator.id] = blur(maps[estimator.id])
        maps_by_task.append(maps)
        noisy = [estimator for estimator in task.estimators if not estimator.control and estimator.form in NOISY]
        stable_copies.append({e.id: by_settings[e.shared_pass_settings].stable_copies for e in noisy})
    return maps_by_task, stable_copies


@torch.no_grad()
def compute_map_outside_shared_pass(estimator: Estimator, task: MapTask) -> Tensor:
    """Compute the maps of a control, or of an estimator with its own passes, float (n, c, h, w).

    The passes and the maps have the images' dtype, because differences of logits need full precision. A map with one
    channel is repeated for all channels. Raises RunError if the network lacks a layer or operation that the estimator
    needs.
    """
    assert estimator.maps is not None, "the shared pass computes the maps of estimators without a function"
    images, map_input = task.batch.images, MapInput(estimator, task.batch, task.black)
    if not estimator.control:
        map_input = _add_network(map_input, task)
    return estimator.maps(map_input).detach().expand_as(images).to(images.dtype).contiguous()


def _add_network(map_input: MapInput, task: MapTask) -> MapInput:
    images = task.batch.images
    contiguous = images.contiguous(memory_format=choose_fastest_float32_layout(images.device))
    return map_input._replace(batch=task.batch._replace(images=contiguous), network=task.model)


@torch.no_grad()
def _compute_searches(searches: Sequence[Estimator], task: MapTask) -> dict[object, Tensor]:
    """Compute the maps of blind searches, by the keys of `_compute_maps`; a long search contains the shorter ones."""
    maps: dict[object, Tensor] = {}
    rows_by_kind: dict[object, list[Estimator]] = {}
    for row in searches:
        rows_by_kind.setdefault((row.get_value("order"), row.get_value("baseline")), []).append(row)
    for rows in rows_by_kind.values():
        map_input = _add_network(MapInput(rows[0], task.batch, task.black), task)
        found = search_by_length(map_input, [row.get_integer("passes") for row in rows])
        maps |= {(row.base, row.form, row.values): one.contiguous() for row, one in zip(rows, found, strict=True)}
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
