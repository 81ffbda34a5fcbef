"""Maps that somebody has already become rankings in the store; no function is known that makes them again."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.api.functions import make_row_name
from roarbench.api.inputs import to_array
from roarbench.api.removal import drop_channel_axis
from roarbench.enums import Split
from roarbench.errors import CallerError
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution.importance import make_image_ids
from roarbench.execution.ranking_jobs import join_ranges
from roarbench.execution.suite_work import ReferenceModel, SuiteWork
from roarbench.kernels.device_ranking import rank_to_planes
from roarbench.kernels.ranking import draw_tie_order
from roarbench.store.map_provenance import ExplainedBatches, MapProvenance
from roarbench.store.ranking_spec import RankingSpec
from roarbench.submissions.file import Submission, check_source

Maps = dict[Split, list[NDArray[np.float32]]]  # by split, one array for each reference
_AT_ONCE = 512  # images that are ranked at once
_STUB = '''\
"""Maps that were handed in as arrays; these are their checksums, one for each reference."""

NAME = {name}
DESCRIPTION = "maps that were handed in as arrays"
MAPS = {sums}


def estimate(model, images, targets, generator):
    raise RuntimeError("these maps were handed in as arrays; no function makes them again")
'''


def read_maps(name: str, given: object) -> Maps:
    """Return maps as arrays, one for each reference: of the test images, or by split.

    They are given as a list with one array or tensor for each reference, (n, c, h, w), (n, 1, h, w) or (n, h, w); as
    such lists under `test` and `train`; or as an array alone, of a suite with one reference.
    """
    by_split = given if isinstance(given, Mapping) else {"test": given}
    if unknown := [str(key) for key in by_split if key not in list(Split)]:
        raise CallerError(f"{name} has maps of '{unknown[0]}'; write test, and train where training images are ranked")
    return {Split(key): [_array(name, one) for one in _list_maps(found)] for key, found in by_split.items()}


def _list_maps(found: Any) -> Sequence[Any]:
    return found if isinstance(found, list | tuple) else [found]


def _array(name: str, found: Any) -> NDArray[np.float32]:
    values = to_array(found)
    if values.ndim not in (3, 4) or not np.issubdtype(values.dtype, np.number):
        seen = f"an array of shape {values.shape} and type {values.dtype}"
        raise CallerError(f"{name} has {seen}; expected numbers (n, c, h, w), (n, 1, h, w) or (n, h, w)")
    if not np.isfinite(values).all():  # before anything is trained for them
        raise CallerError(f"{name} has values that are NaN or infinite; expected finite numbers")
    return np.ascontiguousarray(drop_channel_axis(values), np.float32)


def make_maps_submission(name: str, maps: Maps) -> Submission:
    """Return the submission that stands for maps: it says which they are, and cannot make them."""
    sums = {
        split.value: [hashlib.sha256(f"{one.shape}".encode() + one.tobytes()).hexdigest() for one in found]
        for split, found in maps.items()
    }
    return check_source(_STUB.format(name=json.dumps(make_row_name(name)), sums=json.dumps(sums)).encode())


def check_maps(name: str, maps: Maps, work: SuiteWork) -> None:
    """Refuse maps that are not of a suite's images, or not one set for each reference."""
    shape = work.images.record.shape
    for split, found in maps.items():
        n, references = len(work.images[split].labels), work.suite.references
        if len(found) != references:
            seen = f"{name} has {len(found)} sets of maps of {split} images"
            raise CallerError(f"{seen}, expected {references}: one for each reference")
        for number, one in enumerate(found):
            check_shape(f"maps {number} of {name}", one.shape, (n, *shape))
            if not np.isfinite(one).all():
                seen = f"maps {number} of {name} have values that are NaN or infinite"
                raise CallerError(f"{seen}; expected finite numbers")


def check_shape(what: str, shape: tuple[int, ...], images: tuple[int, ...]) -> None:
    """Refuse maps of a shape that maps of these images, (n, c, h, w), cannot have."""
    n, _, h, w = images
    if shape not in (images, (n, 1, h, w), (n, h, w)):
        raise CallerError(f"{what} have shape {shape}, expected {images}, {(n, 1, h, w)} or {(n, h, w)}")


def keep_maps(row: str, maps: Maps, work: SuiteWork) -> None:
    """Rank the features of all images by maps, for each reference and unit, as far as that was not done."""
    units = dict.fromkeys(block.unit for block in work.suite.blocks)
    for number, own in enumerate(work.explained):
        for spec in (work.ranking_spec(find_estimator(row), unit, number) for unit in units):
            if not work.rankings.has(spec):
                for split in spec.splits:
                    _rank(own, spec, split, maps[split][number])
                join_ranges(work, spec)


def _ties(ids: Tensor, d: int) -> Tensor:
    return torch.from_numpy(draw_tie_order(ids.numpy(), d))


def _rank(explained: ReferenceModel, spec: RankingSpec, split: Split, maps: NDArray[np.float32]) -> None:
    weights = explained.store.checksum()
    for start in range(0, len(maps), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(maps))
        part = torch.from_numpy(maps[start:stop])
        batches = [ExplainedBatches(stop - start, 0, "")]
        ties = partial(_ties, make_image_ids(split, start, stop), spec.layout.features)
        planes, tied = rank_to_planes(part, ties, spec.layout)
        made = MapProvenance(0.0, weights, batches, ties=tied)
        explained.work.rankings.write_part(spec, split, start, stop, planes, made)
