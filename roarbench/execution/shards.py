"""Jobs that a worker does for rankings: rank a range of images, in one pass what shares it, and join the ranges."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from roarbench.datasets.superpixel_files import superpixels
from roarbench.errors import RunError
from roarbench.estimators.engine import EXPLAINED, job_group
from roarbench.execution.importance import TimedMap, images_at_once, maps_and_ties, maps_device
from roarbench.execution.workplace import ReferenceModel, Workplace
from roarbench.kernels.bit_planes import encode
from roarbench.kernels.device_ranking import planes_of
from roarbench.kernels.ranking import features, sort_keys
from roarbench.kernels.superpixels import superpixel_draws, superpixel_means, superpixel_ties
from roarbench.sandbox.explain import images_a_sandbox
from roarbench.store.map_provenance import MapProvenance, merged
from roarbench.store.ranking_spec import RankingSpec
from roarbench.terms import Split, Unit


class Ranked(NamedTuple):
    """Bit-planes of a batch, uint8 (n, planes, width), and how their maps were computed, from whichever weights."""

    planes: NDArray[np.uint8]
    provenance: MapProvenance


def rank_shard(
    explained: Sequence[ReferenceModel], specs: Sequence[RankingSpec], split: Split, start: int, stop: int
) -> dict[RankingSpec, str]:
    """Rank the features of the images `start` … `stop - 1` by the estimators of one group, in one pass.

    Several of the suite's references may be explained together: noisy copies take the same draws. Bit-planes that are
    in the store already are not made again. No more than one batch of maps is kept. The first reference is there for
    controls, too, which explain none.

    Returns:
        Why rankings cannot be made, for those whose maps are not finite numbers of the images' shape.

    Raises:
        StoreError: Another kind of device has begun one of these rankings; no map is made.
    """
    store, locked = explained[0].place.rankings, range(start, stop, EXPLAINED)  # one grid for all kinds of devices
    with ExitStack() as locks:
        for group in explained_groups(specs):
            locks.enter_context(store.lock(specs[0].data, group, split, locked))
        todo = [spec for spec in specs if not store.has_part(spec, split, start, stop)]
        for spec in todo:
            store.refuse_other_device(spec, maps_device(spec.estimator_record))
        pieces, failed = _rank_batches(explained, todo, split, start, stop)
        for spec in (spec for spec in todo if spec not in failed):
            weights = _explained_by(spec, explained).store.checksum() if spec.reference else ""
            planes = np.concatenate([piece.planes for piece in pieces[spec]])
            store.write_part(spec, split, start, stop, planes, _joined(pieces[spec], weights))
    return failed


def _rank_batches(
    explained: Sequence[ReferenceModel], specs: Sequence[RankingSpec], split: Split, start: int, stop: int
) -> tuple[dict[RankingSpec, list[Ranked]], dict[RankingSpec, str]]:
    """Return the rankings batch by batch, and why some cannot be made."""
    pieces: dict[RankingSpec, list[Ranked]] = {spec: [] for spec in specs}
    failed: dict[RankingSpec, str] = {}
    size = _batch_size(explained[0], specs) if specs else 1
    for first in range(start, stop, size):
        todo = [spec for spec in specs if spec not in failed]
        for spec, found in _rank_batch(explained, todo, split, first, min(first + size, stop)):
            if isinstance(found, RunError):
                failed[spec] = f"{split} images from {first} on: {found}"
            else:
                pieces[spec].append(found)
    return pieces, failed


def _explained_by(spec: RankingSpec, explained: Sequence[ReferenceModel]) -> ReferenceModel:
    return next((each for each in explained if each.reference.key == spec.reference), explained[0])


def explained_groups(specs: Sequence[RankingSpec]) -> list[str]:
    """Return names of what is computed together, a group of estimators for one reference each.

    They ascend, so that no two processes that take them one after the other wait for each other.
    """
    return sorted({job_group(spec.estimator_record) + spec.reference[:8] for spec in specs})


def _joined(made: Sequence[Ranked], weights: str) -> MapProvenance:
    parts = [piece.provenance for piece in made]
    batches, kept = merged(one for each in parts for one in each.batches), [n for each in parts for n in each.kept]
    return MapProvenance(sum(each.seconds for each in parts), weights, batches, kept)


def _batch_size(explained: ReferenceModel, specs: Sequence[RankingSpec]) -> int:
    """Return how many images' maps are made at once; more for a submission, whose sandbox takes seconds to start."""
    if not specs[0].estimator_record.submitted:
        return images_at_once(explained, len(specs))
    return images_a_sandbox(specs[0].shape)


def _rank_batch(
    explained: Sequence[ReferenceModel], specs: list[RankingSpec], split: Split, start: int, stop: int
) -> Iterator[tuple[RankingSpec, Ranked | RunError]]:
    """Return each ranking of one batch, or what is wrong with its maps."""
    by_reference: dict[ReferenceModel, list[RankingSpec]] = {}
    for spec in specs:
        by_reference.setdefault(_explained_by(spec, explained), []).append(spec)
    asked = {own: {spec.name for spec in theirs} for own, theirs in by_reference.items()}
    images, labels = explained[0].place.images, None
    if any(spec.unit is Unit.SUPERPIXEL for spec in specs):
        labels = superpixels(images.folder, split, images[split].pixels, start, stop)
    made, ties = maps_and_ties(asked, split, start, stop, {spec.layout.features for spec in specs})
    for maps, theirs in zip(made, by_reference.values(), strict=True):
        for spec in theirs:
            yield spec, ranked(spec, maps[spec.name], ties[spec.layout.features], labels)


def ranked(spec: RankingSpec, made: TimedMap, ties: Tensor, labels: NDArray[np.uint16] | None) -> Ranked | RunError:
    """Return the ranking of one batch's maps, or what is wrong with them; `labels` are the images' superpixels."""
    layout = spec.layout
    try:
        if layout.unit is not Unit.SUPERPIXEL:
            return Ranked(planes_of(made.importance, ties, layout), made.provenance)
        flat = features(made.importance.cpu().numpy(), layout.shape, layout.unit)
    except RunError as error:  # of one estimator; the others of the pass go on
        return error
    assert labels is not None, "found for the batch"
    joined = superpixel_draws if spec.name == "random" else superpixel_means
    keys = sort_keys(joined(flat, labels), superpixel_ties(ties.cpu().numpy(), labels))
    return Ranked(encode(keys, layout), made.provenance)


def seal(place: Workplace, spec: RankingSpec) -> None:
    """Join the ranked ranges of one estimator into its finished ranking."""
    place.rankings.seal(spec, {split: len(place.images[split].labels) for split in spec.splits})
