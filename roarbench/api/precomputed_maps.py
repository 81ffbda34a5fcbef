"""Read precomputed maps from arrays, and rank the features of a suite's images by these maps."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from roarbench.api.inputs import to_array
from roarbench.api.removal import check_map_shape, drop_channel_axis
from roarbench.api.submission_source import make_submission_name
from roarbench.common.enums import Split
from roarbench.common.errors import CallerError
from roarbench.compute.map_ranking import rank_to_bit_planes
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.map_input import make_image_ids
from roarbench.execution.job_context import JobContext, ReferenceModel
from roarbench.execution.ranking_jobs import join_ranked_ranges
from roarbench.store.ranking_files import MapProvenance, RankingSpec
from roarbench.submissions.submission_file import Submission, parse_submission

MapsBySplit = dict[Split, list[NDArray[np.float32]]]  # by split, one array per explained network
_IMAGES_PER_BATCH = 512
_STUB = '''\
"""Checksums of maps that were passed in as arrays, one for each reference."""

NAME = {name}
DESCRIPTION = "maps that were passed in as arrays"
MAPS = {sums}


def estimate(model, images, targets, generator):
    raise RuntimeError("these maps were passed in as arrays; no function can recompute them")
'''


def read_maps(name: str, maps: object) -> MapsBySplit:
    """Convert precomputed maps to arrays by split, one array per explained network.

    `maps` is a list with one array or tensor per network, (n, c, h, w), (n, 1, h, w) or (n, h, w), for the test images;
    a mapping with such lists under `test` and `train`; or a single array for a suite with one network.
    """
    by_split = maps if isinstance(maps, Mapping) else {"test": maps}
    if unknown := [str(key) for key in by_split if key not in list(Split)]:
        keys = "the keys are `test` and, for protocols that need it, `train`"
        raise CallerError(f"{name} has maps of '{unknown[0]}'; {keys}")
    listed = {key: arrays if isinstance(arrays, list | tuple) else [arrays] for key, arrays in by_split.items()}
    return {Split(key): [_read_map_array(name, array) for array in arrays] for key, arrays in listed.items()}


def _read_map_array(name: str, array: Any) -> NDArray[np.float32]:
    values = to_array(array)
    if values.ndim not in (3, 4) or not np.issubdtype(values.dtype, np.number):
        seen = f"an array of shape {values.shape} and type {values.dtype}"
        raise CallerError(f"{name} has {seen}; expected numbers (n, c, h, w), (n, 1, h, w) or (n, h, w)")
    if not np.isfinite(values).all():  # report this before any network is trained
        raise CallerError(f"{name} has values that are NaN or infinite; expected finite numbers")
    return np.ascontiguousarray(drop_channel_axis(values), np.float32)


def make_checksum_submission(name: str, maps: MapsBySplit) -> Submission:
    """Return a submission with the checksums of these maps; the submission cannot compute maps."""
    checksums = {
        split.value: [hashlib.sha256(f"{array.shape}".encode() + array.tobytes()).hexdigest() for array in arrays]
        for split, arrays in maps.items()
    }
    return parse_submission(
        _STUB.format(name=json.dumps(make_submission_name(name)), sums=json.dumps(checksums)).encode()
    )


def check_map_shapes(name: str, maps: MapsBySplit, work: JobContext) -> None:
    """Raise CallerError unless each explained network has maps in the shape of the suite's images."""
    shape = work.images.record.shape
    for split, arrays in maps.items():
        n, networks = len(work.images[split].labels), work.suite.references
        if len(arrays) != networks:
            seen = f"{name} has {len(arrays)} sets of maps of {split} images"
            raise CallerError(f"{seen}, expected {networks}: one for each explained network")
        for number, array in enumerate(arrays):
            check_map_shape(f"maps {number} of {name}", array.shape, (n, *shape))


def rank_precomputed_maps(row: str, maps: MapsBySplit, work: JobContext) -> None:
    """Rank the features of all images by maps, per network and unit, unless the rankings are already stored."""
    units = dict.fromkeys(block.unit for block in work.suite.blocks)
    for number, explained in enumerate(work.explained):
        for spec in (work.make_ranking_spec(find_estimator(row), unit, number) for unit in units):
            if not work.rankings.has_finished(spec):
                for split in spec.splits:
                    _rank_maps(explained, spec, split, maps[split][number])
                join_ranked_ranges(work, spec)


def _rank_maps(explained: ReferenceModel, spec: RankingSpec, split: Split, maps: NDArray[np.float32]) -> None:
    weights = explained.store.read_checksum()
    for start in range(0, len(maps), _IMAGES_PER_BATCH):
        stop = min(start + _IMAGES_PER_BATCH, len(maps))
        ids = make_image_ids(split, start, stop).numpy()
        planes, tied = rank_to_bit_planes(torch.from_numpy(maps[start:stop]), ids, spec.layout)
        provenance = MapProvenance(0.0, weights, ties=tied)
        explained.work.rankings.write_part(spec, split, start, stop, planes, provenance)
