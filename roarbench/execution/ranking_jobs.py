"""Make importance maps of a range of images, rank their features, and join the ranges, as jobs of a worker."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.common.device_settings import (
    choose_device,
    choose_precision,
    choose_processor_or_gpu_clock,
    count_available_gpu_bytes,
    name_device,
)
from roarbench.common.enums import TEST_IDS, MapNumerics, Precision, Split
from roarbench.common.errors import RunError
from roarbench.compute.map_ranking import DrawnTies, rank_to_bit_planes
from roarbench.compute.networks import count_network_cost
from roarbench.compute.prediction import Normalisation, fit_class_templates_and_classifier, normalise
from roarbench.estimators.catalogue import count_passes, find_estimator
from roarbench.estimators.compute_maps import (
    IMAGES_PER_PASS,
    Maps,
    MapTask,
    PassReport,
    compute_maps_of_tasks,
    count_fitting_images,
)
from roarbench.estimators.estimator import SEED, Batch, Estimator, blur, make_image_ids
from roarbench.estimators.ids import CUDA, TRUSTED
from roarbench.estimators.image_gradient import speed_up_image_gradient
from roarbench.estimators.network_copies import SplitStem, fold_batchnorm, split_after_first_convolution
from roarbench.estimators.random_draws import draw_other_targets
from roarbench.execution.job_context import JobContext, ReferenceModel, make_inference_copy
from roarbench.execution.workload import choose_cpu_explanation_batch_size, count_cost_per_image
from roarbench.plan.suite import SuiteSpec
from roarbench.store.ranking_files import MapProvenance, RankingSpec
from roarbench.store.workspace import Workspace
from roarbench.submissions.limits_and_faults import compute_sandbox_limits
from roarbench.submissions.run_in_sandbox import (
    SandboxTask,
    count_images_per_call,
    count_images_per_sandbox,
    derive_image_seeds,
    run_submission,
)
from roarbench.submissions.submission_calls import ExplainedPart
from roarbench.submissions.submission_file import parse_submission

# bit-planes of a batch, (n, planes, width), and provenance of its maps
_Piece = tuple[NDArray[np.uint8], MapProvenance]
MAX_LOADED_NETWORKS = 8  # maximum explained networks that stay in a process's memory


class MapWithProvenance(NamedTuple):
    """Importance maps, float32 (n, c, h, w) or (n, h, w), on the device that made them, and their provenance."""

    importance: Tensor
    provenance: MapProvenance


def load_batch(explained: ReferenceModel, split: Split, start: int, stop: int, norm: Normalisation) -> Batch:
    """Return images `start` to `stop - 1`, normalised; the targets are the predicted classes that the maps explain."""
    images, store = explained.work.images[split], explained.store
    targets = torch.zeros(stop - start, dtype=torch.int64)  # controls ignore targets
    if store.has_predictions(split):
        targets = torch.from_numpy(store.load_predictions(split).targets[start:stop])
    truth = None if images.truth is None else torch.from_numpy(images.truth[start:stop])
    pixels = torch.from_numpy(images.pixels[start:stop])
    ids, seed = make_image_ids(split, start, stop), explained.reference.seed
    return Batch(normalise(pixels, norm), targets, ids, truth, seed=seed)


MapKey = tuple[ReferenceModel, str]  # an explained network and the id of an estimator


def make_maps_for_networks(
    keys: Iterable[MapKey], split: Split, start: int, stop: int
) -> dict[MapKey, MapWithProvenance]:
    """Make the maps of images `start` to `stop - 1` for several networks, which share the draws of noise."""
    groups: defaultdict[str, defaultdict[ReferenceModel, list[Estimator]]] = defaultdict(lambda: defaultdict(list))
    pairs = ((explained, find_estimator(name)) for explained, name in set(keys))
    for explained, estimator in sorted(pairs, key=lambda pair: (pair[1].job_group, pair[0].number, pair[1].id)):
        groups[estimator.job_group][explained].append(estimator)
    maps: dict[MapKey, MapWithProvenance] = {}
    for group in groups.values():
        parts = list[_GroupInputs]()
        for explained, estimators in group.items():
            batch = load_batch(explained, split, start, stop, _choose_normalisation(explained, estimators[0]))
            images = explained.work.images
            if estimators[0].explained_variant == "other-target":
                targets = draw_other_targets(batch.targets, batch.ids, images.record.classes, SEED)
                batch = batch._replace(targets=targets)
            if estimators[0].uses_prediction:
                batch = batch._replace(class_images=fit_class_templates_and_classifier(images))
            parts.append(_GroupInputs(explained, estimators, batch))
        is_submitted = parts[0].estimators[0].submitted
        made_maps = [_make_submitted_maps(part) for part in parts] if is_submitted else _make_builtin_maps(parts)
        for part, maps_by_estimator in zip(parts, made_maps, strict=True):
            maps |= {(part.explained, name): made for name, made in maps_by_estimator.items()}
    return maps


class _GroupInputs(NamedTuple):
    """Estimators that share passes, the network that they explain, and a batch of images."""

    explained: ReferenceModel
    estimators: list[Estimator]
    batch: Batch


def _choose_normalisation(explained: ReferenceModel, estimator: Estimator) -> Normalisation:
    return Normalisation.of(explained.work.images) if estimator.control else explained.norm


def _make_submitted_maps(part: _GroupInputs) -> dict[str, MapWithProvenance]:
    """Make the maps of a submission and of its blurred twin for one network, in a sandbox of their own.

    A submission that sees another explained network can subtract its map: input x gradient then has an own-network gain
    of +57 instead of +16.
    """
    explained, (estimator, *_), (images, targets, ids, *_) = part
    work = explained.work
    network = work.suite.find_network(explained.number)
    code = read_submitted_code(work.workspace, estimator)
    n, size, seeds = len(ids), count_images_per_call(network), derive_image_seeds(ids)
    sandbox_part = ExplainedPart(explained.load_variant(estimator.explained_variant), images, targets, seeds, size)
    device = CUDA if CUDA in estimator.parsed_id.marks else "cpu"
    task = SandboxTask(code, network, (sandbox_part,), device, image_numbers=ids % TEST_IDS)
    limits = compute_sandbox_limits(n, count_network_cost(*network).flops)
    answer = run_submission(task, limits, trust=TRUSTED in estimator.parsed_id.marks)
    if answer.refusal is not None:
        # a RunError is stored as the run's failure: the submission is at fault, not the worker
        raise RunError(f"{answer.refusal.kind}: {str(answer.refusal).removeprefix(f'{answer.refusal.kind} ')}")
    (importance,) = answer.maps
    provenance = MapProvenance(
        answer.ended.cpu,
        precision=Precision.FLOAT32,
        device=find_map_device(estimator),
        passes=answer.passes[0] if answer.passes else None,
    )
    maps = {each.id: importance for each in part.estimators}
    for each in part.estimators:
        if each.twin == "blurred":
            maps[each.id] = blur(importance.view(n, -1, *importance.shape[-2:])).view_as(importance)
    return {name: MapWithProvenance(made, provenance) for name, made in maps.items()}


def read_submitted_code(workspace: Workspace, estimator: Estimator) -> bytes:
    """Return the code of a submission in a store, with the values of its parameters."""
    file, parameters = estimator.parsed_id.id_without_parameters, estimator.parsed_id.listed or ""
    return parse_submission(workspace.read_submission(file)).replace_parameters(parameters).code


def find_map_device(estimator: Estimator) -> str:
    """Return the kind of device on which this process makes an estimator's maps."""
    return "cpu" if estimator.submitted and CUDA not in estimator.parsed_id.marks else name_device(choose_device())


def _make_builtin_maps(parts: list[_GroupInputs]) -> list[dict[str, MapWithProvenance]]:
    """Make the maps of built-in estimators that share passes, or of controls, for several explained networks."""
    device = choose_device()
    clock = choose_processor_or_gpu_clock(device)
    start, first, estimator = clock(), parts[0].explained, parts[0].estimators[0]
    numerics = first.work.suite.maps if estimator.uses_shared_pass else MapNumerics.FLOAT32
    variant = estimator.explained_variant
    networks = [part.explained for part in parts]
    models: list[nn.Module | None] = [None] * len(networks)
    if not estimator.control:
        is_own = estimator.has_own_passes and "layer" not in estimator.parameters
        used = None if is_own and not count_passes([estimator]).backward else numerics
        models = [_load_and_speed_up_network(each, variant, used, each.store.read_checksum()) for each in networks]
    blacks = [_choose_normalisation(each, estimator).black for each in networks]
    precision = choose_precision(numerics.precision, device)
    n, estimator_count = len(parts[0].batch.ids), sum(len(part.estimators) for part in parts)
    size = choose_map_batch_size(first.work.suite, estimator_count)
    used_numerics = MapNumerics(f"{precision}-stem" if isinstance(models[0], SplitStem) else precision)
    reports_of_batches: list[list[PassReport]] = []
    maps_of_batches: list[list[Maps]] = []
    for rows in (slice(begin, begin + size) for begin in range(0, n, size)):
        tasks = [
            MapTask(estimators, model, batch.select_rows(rows).to(device), black)
            for (_, estimators, batch), model, black in zip(parts, models, blacks, strict=True)
        ]
        maps_of_batches.append(compute_maps_of_tasks(tasks, precision, reports_of_batches.append))
    passes = sum(sum(count_passes(part.estimators)) or len(part.estimators) for part in parts)
    seconds_per_pass = (clock() - start) / passes
    maps_by_network = list[dict[str, MapWithProvenance]]()
    by_network = zip(parts, zip(*reports_of_batches, strict=True), zip(*maps_of_batches, strict=True), strict=True)
    for part, reports, maps in by_network:
        # prediction stability is defined for the trained network's own predictions only
        names = reports[0].stable_copies if variant == "trained" else ()
        stable_copies = {name: torch.cat([report.stable_copies[name] for report in reports]).tolist() for name in names}
        joined = {}
        for each in part.estimators:
            seconds, stable = (sum(count_passes([each])) or 1) * seconds_per_pass, stable_copies.get(each.id, ())
            provenance = MapProvenance(seconds, "", used_numerics, name_device(device), stable)
            joined[each.id] = MapWithProvenance(torch.cat([batch_maps[each.id] for batch_maps in maps]), provenance)
        maps_by_network.append(joined)
    return maps_by_network


@lru_cache(maxsize=MAX_LOADED_NETWORKS)
def _load_and_speed_up_network(
    explained: ReferenceModel, variant: str, numerics: MapNumerics | None, checksum: str
) -> nn.Module:
    """Load the network that a group of estimators explains to the device; a process loads it once per checksum.

    Unless `numerics` is plain float32, batch norms are folded into convolutions (docs/decisions/0019), the gradient of
    images is computed without strides, and networks that compute in float32, or whose `numerics` ask for it, are split
    after the first convolution (docs/decisions/0032): in float32, the split changes maps by rounding only. With None,
    the network is for forward passes alone.
    """
    model = explained.load_variant(variant)
    if numerics is None:
        model = make_inference_copy(model)
    elif numerics is not MapNumerics.FLOAT32:
        folded = fold_batchnorm(model)
        in_float32 = choose_precision(numerics.precision, choose_device()) is Precision.FLOAT32
        is_split = numerics.passes_path_through_stem_at_once or in_float32
        model = split_after_first_convolution(folded) if is_split else folded
        speed_up_image_gradient(model)
    return model.to(choose_device())


def choose_map_batch_size(suite: SuiteSpec, estimator_count: int) -> int:
    """Return the number of images to explain at once: on a GPU, as many as fit in its memory."""
    if choose_device().type == "cpu":
        return choose_cpu_explanation_batch_size(suite)
    activations, shape = count_cost_per_image(suite).activations, suite.dataset_record.shape
    return max(IMAGES_PER_PASS, count_fitting_images(count_available_gpu_bytes(), activations, shape, estimator_count))


def rank_shard(
    work: JobContext, specs: Sequence[RankingSpec], split: Split, start: int, stop: int
) -> dict[RankingSpec, str]:
    """Rank images `start` to `stop - 1` by estimators that share passes; return the reasons of failed rankings.

    Rankings for several explained networks are made together, because the networks share the draws of noise. Existing
    bit-planes are not made again. Only one batch of maps is in memory at a time.

    Raises:
        StoreError: A part of one of these rankings was made on another kind of device; no map was made.
    """
    store, batches = work.rankings, range(start, stop, IMAGES_PER_PASS)  # CPUs and GPUs lock the same ranges
    with ExitStack() as locks:
        for name in list_lock_names(specs):
            locks.enter_context(store.lock_batches(specs[0].data, name, split, batches))
        todo = [spec for spec in specs if not store.has_ranked_range(spec, split, start, stop)]
        for spec in todo:
            store.refuse_other_device(spec, find_map_device(spec.estimator_record))
        pieces: defaultdict[RankingSpec, list[_Piece]] = defaultdict(list)
        failed: dict[RankingSpec, str] = {}
        if not todo:
            return failed
        size = choose_map_batch_size(work.suite, len(todo))
        if todo[0].estimator_record.submitted:  # a larger batch, as its sandbox takes seconds to start
            size = count_images_per_sandbox(todo[0].shape)
        for first in range(start, stop, size):
            remaining = [spec for spec in todo if spec not in failed]
            ranked, reasons = rank_batch(work, remaining, split, first, min(first + size, stop))
            failed |= reasons
            for spec, piece in ranked.items():
                pieces[spec].append(piece)
        for spec in (spec for spec in todo if spec not in failed):
            weights = work.find_network_of_ranking(spec).store.read_checksum() if spec.reference else ""
            parts, provenances = zip(*pieces[spec], strict=True)
            store.write_part(spec, split, start, stop, np.concatenate(parts), _join_provenance(provenances, weights))
    return failed


def list_lock_names(specs: Sequence[RankingSpec]) -> list[str]:
    """Return names of locks, one per group of estimators and explained network, sorted to prevent deadlocks."""
    return sorted({spec.estimator_record.job_group + spec.reference[:8] for spec in specs})


def _join_provenance(parts: Sequence[MapProvenance], weights: str) -> MapProvenance:
    times = [part.seconds for part in parts]
    seconds = None if None in times else sum(filter(None, times))
    stable_copies = [n for part in parts for n in part.stable_copies]
    ties = [share for part in parts for share in part.ties]
    counted = [part.passes for part in parts if part.passes is not None]
    passes = None
    if len(counted) == len(parts):
        passes = sum(forward for forward, _ in counted), sum(backward for _, backward in counted)
    return parts[0]._replace(seconds=seconds, weights=weights, stable_copies=stable_copies, ties=ties, passes=passes)


def rank_batch(
    work: JobContext, specs: list[RankingSpec], split: Split, start: int, stop: int
) -> tuple[dict[RankingSpec, _Piece], dict[RankingSpec, str]]:
    """Rank one batch; return the rankings, and the reasons of failed rankings."""
    keys = {spec: (work.find_network_of_ranking(spec), spec.name) for spec in specs}
    maps = make_maps_for_networks(keys.values(), split, start, stop)
    ids = make_image_ids(split, start, stop).numpy()
    drawn: DrawnTies = {}  # shared by all estimators of the batch
    pieces: dict[RankingSpec, _Piece] = {}
    failed: dict[RankingSpec, str] = {}
    for spec, key in keys.items():
        importance, provenance = maps[key]
        try:
            planes, tied = rank_to_bit_planes(importance, ids, spec.layout, drawn)
        except RunError as error:  # only this estimator failed; the other estimators of the pass continue
            failed[spec] = f"{split} images from number {start}: {error}"
        else:
            pieces[spec] = planes, provenance._replace(ties=tied)
    return pieces, failed


def join_ranked_ranges(work: JobContext, spec: RankingSpec) -> None:
    """Join an estimator's ranked ranges of images into a finished ranking."""
    work.rankings.join_parts_and_finish(spec, {split: len(work.images[split].labels) for split in spec.splits})
