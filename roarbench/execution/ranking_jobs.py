"""Rank a range of images by estimators that share forward and backward passes, and join the ranges."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import RunError
from roarbench.compute.device_ranking import make_cached_tie_order_function, rank_to_bit_planes
from roarbench.estimators.compute_maps import IMAGES_PER_PASS
from roarbench.estimators.map_input import make_image_ids
from roarbench.execution.importance_maps import choose_map_batch_size, find_map_device, make_maps_for_networks
from roarbench.execution.job_context import JobContext
from roarbench.store.ranking_files import MapProvenance, RankingSpec, merge_batch_records
from roarbench.submissions.run_in_sandbox import count_images_per_sandbox

# bit-planes of a batch, (n, planes, width), and provenance of its maps
_Piece = tuple[NDArray[np.uint8], MapProvenance]
FailureReason = str


def rank_shard(
    work: JobContext, specs: Sequence[RankingSpec], split: Split, start: int, stop: int
) -> dict[RankingSpec, FailureReason]:
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
        failed: dict[RankingSpec, FailureReason] = {}
        size = _choose_batch_size(work, todo) if todo else 1
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
    batches = merge_batch_records(record for part in parts for record in part.batches)
    stable_copies = [n for part in parts for n in part.stable_copies]
    ties = [share for part in parts for share in part.ties]
    return MapProvenance(sum(part.seconds for part in parts), weights, batches, stable_copies, ties)


def _choose_batch_size(work: JobContext, specs: Sequence[RankingSpec]) -> int:
    """Return the number of images per batch; a submission's batch is larger, as its sandbox takes seconds to start."""
    if not specs[0].estimator_record.submitted:
        return choose_map_batch_size(work.suite, len(specs))
    return count_images_per_sandbox(specs[0].shape)


def rank_batch(
    work: JobContext, specs: list[RankingSpec], split: Split, start: int, stop: int
) -> tuple[dict[RankingSpec, _Piece], dict[RankingSpec, str]]:
    """Rank one batch; return the rankings, and the reasons of failed rankings."""
    keys = {spec: (work.find_network_of_ranking(spec), spec.name) for spec in specs}
    maps = make_maps_for_networks(keys.values(), split, start, stop)
    draw_ties = make_cached_tie_order_function(make_image_ids(split, start, stop).numpy())
    pieces: dict[RankingSpec, _Piece] = {}
    failed: dict[RankingSpec, FailureReason] = {}
    for spec, key in keys.items():
        importance, provenance = maps[key]
        try:
            planes, tied = rank_to_bit_planes(importance, partial(draw_ties, spec.layout.features), spec.layout)
        except RunError as error:  # only this estimator failed; the other estimators of the pass continue
            failed[spec] = f"{split} images from number {start}: {error}"
        else:
            pieces[spec] = planes, provenance._replace(ties=tied)
    return pieces, failed


def join_ranked_ranges(work: JobContext, spec: RankingSpec) -> None:
    """Join an estimator's ranked ranges of images into a finished ranking."""
    work.rankings.join_parts_and_finish(spec, {split: len(work.images[split].labels) for split in spec.splits})
