"""Work that runs need, counted: nothing is timed, and no data is opened."""

import operator
from collections.abc import Collection, Iterable
from itertools import chain
from math import prod
from typing import NamedTuple

from roarbench.compute import inputs
from roarbench.compute.augment import SHIFT
from roarbench.compute.bit_planes import Layout
from roarbench.compute.network_table import MODELS
from roarbench.compute.networks import NetworkCost, count_network_cost
from roarbench.compute.recipe import Recipe
from roarbench.datasets.sources import check_limit
from roarbench.enums import PLAIN_FILLS, ScoredNetwork, Split, Unit
from roarbench.estimators.catalogue import count_passes
from roarbench.estimators.engine import EXPLAINED, find_job_group
from roarbench.estimators.estimator import NOISY, Estimator
from roarbench.plan.planned_runs import (
    Point,
    RankedSplit,
    SharedInputs,
    count_reference_epochs,
    express_tuning_in_epochs,
    list_ranked_splits,
    list_shared_inputs,
    list_stored_levels,
)
from roarbench.plan.runs import CLEAN, Cell
from roarbench.plan.suite import SuiteSpec

PARTS = ("decode", "reference", "attribution", "noise", "submission", "ranking", "filling", "retraining", "scoring")
_PUT_OUT = 2**30  # bytes that a stranger's network may put out for all images explained at once
_FLOAT = 4  # bytes of a float32
_JOINED = 2  # copies of a split beside its parts: `RankingsStore.seal`
_COPIES = 3  # weights, gradients, momentum
_KEPT = 2 * (1 + 2 / SHIFT) ** 2  # bytes of a number of a held image: bfloat16, with its edges mirrored around it
_HELD = 8e9  # bytes of removed bits that a worker holds; more of them are extracted into a file and read from there
_NOTHING = SharedInputs()
TRAIN, EXPLAIN = 3, 2  # forward passes that a training step takes, and a pass forward and back to the image


class Work(NamedTuple):
    """Counted work."""

    trainings: int  # networks trained from scratch, references among them
    references: int  # those of them that are explained
    scorings: int  # runs that only score the reference, or a network that several runs share
    images_decoded: int  # images of both splits, if they are not decoded yet
    images_reference: float  # training images times epochs, of the references
    # the same, over all other trainings; images that common networks are tuned on are at full size and count for as
    # many of the recipe's mean size
    images_retrained: float
    images_scored: int  # test images, over all runs; for the reference's targets all images that are ranked, once
    images_explained: int  # images times forward passes of the reference
    copies_drawn: int  # noisy copies of images, whose draws all references share
    images_submitted: int  # images times submissions, whose own code makes the maps; a blurred twin shares its parent's
    images_ranked: int  # images times rankings
    images_filled: int  # images over all runs, where what replaces removed features is made of those that are left
    disk: int  # bytes of decoded images, rankings and results, in the end
    sealing: int  # bytes that a worker needs beside those while it joins the parts of a ranking
    # the same, while it trains or scores on removed features that are too many to be held: they are in a file
    extracted: int
    memory: int  # bytes that one worker needs beside the images and rankings, which are read through memory maps
    images: int  # bytes of the decoded images; all workers share what is in memory of them
    planes: int  # bytes of the largest ranking in use, of both splits; the same
    train: int  # training images that there are

    @property
    def images_trained(self) -> float:
        """Return training images times epochs, over all trainings."""
        return self.images_reference + self.images_retrained

    def disk_with(self, workers: int) -> int:
        """Return bytes of disk where so many workers have extracted a run's removed features, beside all that stays."""
        return self.disk + min(workers, self.trainings + self.scorings) * self.extracted


def count_work(
    suite: SuiteSpec, points: Collection[Point], limit: int | None = None, there: SharedInputs = _NOTHING
) -> Work:
    """Count the work of these missing points beyond existing inputs."""
    record = suite.dataset_record
    check_limit(record, limit)
    train, test = (min(limit or n, n) for n in (record.train_images, record.test_images))
    counts = {Split.TRAIN: train, Split.TEST: test}
    own = sum(point.cell.retrain.trains and point.cell.retrain is not ScoredNetwork.COMMON for point in points)
    needed = list_shared_inputs(suite, points)
    missing = SharedInputs(*map(operator.sub, needed, there))
    retrained, recipe = own + len(missing.common), suite.recipe_record
    rankings = {split: {row for row in missing.rankings if row.split is split} for split in Split}
    parts = [(counts[split], *_by_reference(suite, found)) for split, found in rankings.items()]
    sizes = {row: counts[row.split] * _planes_size(suite, row.unit) for row in needed.rankings}
    made = [sizes[row] for row in missing.rankings]
    reference = len(missing.references)
    images = train + test if points else 0
    pixels = images * prod(record.shape)
    trainings = retrained + (0 if suite.given else reference)
    return Work(
        trainings=trainings,
        references=trainings - retrained,
        scorings=len(points) - own,
        images_decoded=images,
        images_reference=reference * count_reference_epochs(suite) * train,
        images_retrained=(retrained * recipe.epochs + len(missing.tuned) * express_tuning_in_epochs(recipe)) * train,
        images_scored=len(points) * test + reference * sum(counts[split] for split in list_ranked_splits(suite)),
        images_explained=sum(
            n * count_passes(shared, prod(record.shape)).forward for n, each, _ in parts for shared in each
        ),
        copies_drawn=sum(n * count_noisy_copies(chain(*explained)) for n, explained, _ in parts),
        images_submitted=sum(
            n * len(set(map(find_job_group, theirs))) for n, _, submitted in parts for theirs in submitted
        ),
        images_ranked=sum(counts[split] * len(found) for split, found in rankings.items()),
        images_filled=sum(count_filled_images(point.cell, train, test) for point in points),
        disk=pixels + sum(made) + len(points) * test // 8,
        sealing=_JOINED * max(made, default=0),
        extracted=_extracted(suite, points, train, test),
        memory=_memory(suite, train, max(sum(map(len, chain(*each))) for _, *each in parts), trains=trainings > 0),
        images=pixels,
        train=train,
        planes=max((sum(sizes.get(row._replace(split=split), 0) for split in Split) for row in sizes), default=0),
    )


def count_filled_images(cell: Cell, train: int, test: int) -> int:
    """Return how many images a run fills with a slow fill, computed from kept features."""
    if cell.fill in PLAIN_FILLS:
        return 0
    return train + test if cell.retrain.trains else test


def _planes_size(suite: SuiteSpec, unit: Unit) -> int:
    """Return the bytes of one image's bit-planes."""
    layout = Layout(suite.dataset_record.shape, unit, list_stored_levels(suite))
    return layout.planes * layout.width


def count_noisy_copies(estimators: Iterable[Estimator]) -> int:
    """Return how many noisy copies of an image these estimators need, for any number of explained networks."""
    noisy = [e for e in estimators if e.shared and e.form in NOISY]
    samples = {
        group: [int(e.value("samples")) for e in noisy if find_job_group(e) == group]
        for group in map(find_job_group, noisy)
    }
    return sum(map(max, samples.values()))


def count_cost_per_image(suite: SuiteSpec) -> NetworkCost:
    """Return the cost of an image in the suite's network."""
    record = suite.dataset_record
    return count_network_cost(suite.model, record.classes, record.channels, record.size, suite.network_source)


def count_explained_at_once(suite: SuiteSpec) -> int:
    """Return how many images a CPU explains at once, at most `EXPLAINED`.

    Built-in networks, whose maps are published, keep their number; for others it depends on their layers' output.
    """
    if suite.model in MODELS:
        return EXPLAINED
    return max(1, min(EXPLAINED, _PUT_OUT // (_FLOAT * count_cost_per_image(suite).activations)))


def count_training_batch(recipe: Recipe, train: int) -> int:
    """Return how many images pass a training network at once."""
    return min(recipe.micro_batch or recipe.batch, train)


def _memory(suite: SuiteSpec, train: int, rankings: int, trains: bool) -> int:
    """Return the larger memory of training (with a level's masks), if any, and explaining (with one batch's maps)."""
    cost, record, recipe = count_cost_per_image(suite), suite.dataset_record, suite.recipe_record
    features = record.channels * record.size**2
    step = count_training_batch(recipe, train) * (cost.activations + features) + _COPIES * cost.parameters
    explained = min(count_explained_at_once(suite), train)
    maps = explained * (cost.activations + rankings * features) + cost.parameters
    bits = 0 if _streams(suite, train) else train * features // 8
    training = step * _FLOAT + bits + _held_images(recipe, train, features) if trains else 0
    return max(training, maps * _FLOAT)


def _streams(suite: SuiteSpec, train: int) -> bool:
    """Return whether the removed bits of all training images are more than a worker holds."""
    return train * prod(suite.dataset_record.shape) // 8 >= _HELD


def _extracted(suite: SuiteSpec, points: Iterable[Point], train: int, test: int) -> int:
    """Return bytes of the removed bits that one of these runs extracts into a file: of training images if it trains."""
    networks = {point.cell.retrain for point in points if point.cell.estimator != CLEAN}
    if not networks or not _streams(suite, train):
        return 0
    return (train if ScoredNetwork.IMAGES in networks else test) * prod(suite.dataset_record.shape) // 8


def _held_images(recipe: Recipe, train: int, features: int) -> int:
    """Return the bytes of training images prepared for all epochs, on a CPU."""
    kept = recipe.augmentation in inputs.MOVING and train * features * _FLOAT <= inputs.MOST
    return round(train * features * _KEPT) if kept else 0


def _by_reference(
    suite: SuiteSpec, rankings: Iterable[RankedSplit]
) -> tuple[list[set[Estimator]], list[set[Estimator]]]:
    """Return the estimators and the submissions that explain each network here."""
    found = [{row.estimator for row in rankings if row.reference == number} for number in range(suite.references)]
    submitted = [{estimator for estimator in each if estimator.submitted} for each in found]
    return [each - theirs for each, theirs in zip(found, submitted, strict=True)], submitted


def count_operations(work: Work, flops: int, area: float = 1.0) -> float:
    """Return floating-point operations of all networks; `flops` are those of one forward pass at full size.

    `area` is the mean size of training images relative to the full size.
    """
    scored, explained = work.images_scored, work.images_explained
    return flops * (TRAIN * area * work.images_trained + scored + EXPLAIN * explained)
