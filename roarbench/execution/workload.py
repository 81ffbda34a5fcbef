"""Count the work that runs need, without timing and without opening data."""

import operator
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import chain
from math import prod
from typing import NamedTuple

import torch
from torch import nn

from roarbench.common.enums import PLAIN_FILLS, ScoredNetwork, Split, Unit
from roarbench.compute import normalised_inputs
from roarbench.compute.augment import SHIFT
from roarbench.compute.bit_planes import Layout
from roarbench.compute.builtin_network_table import MODELS
from roarbench.compute.networks import NetworkCost, build_network, count_network_cost
from roarbench.compute.recipe import Recipe
from roarbench.datasets.undecoded_splits import check_image_limit
from roarbench.estimators.catalogue import count_passes
from roarbench.estimators.compute_maps import IMAGES_PER_PASS
from roarbench.estimators.estimator import NOISY, Estimator
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.planned_runs import (
    PlannedRun,
    RankedSplit,
    SharedInputs,
    find_epochs_per_reference,
    list_ranked_splits,
    list_shared_inputs,
    list_stored_levels,
)
from roarbench.plan.recipes import express_fine_tuning_in_epochs
from roarbench.plan.suite import SuiteSpec

PARTS = (
    *("decode", "reference", "attribution", "noise", "submission", "ranking", "filling", "retraining", "scoring"),
    "overhead",
)
_PUT_OUT = 2**30  # maximum bytes of activations of a user's network, summed over the images of a batch
_FLOAT = 4  # bytes of a float32 number
_JOINED = 2  # `RankingsStore.seal` makes two copies of a split besides the parts
_COPIES = 3  # numbers in memory per weight: the weight, its gradient, its momentum
# bytes per number of an image in memory: bfloat16, with mirrored edges around the image
_KEPT = 2 * (1 + 2 / SHIFT) ** 2
SHARD = 512  # maximum images of a ranking job; on a GPU, small images pass through a network together
_HELD = 8e9  # maximum bytes of removed bits that a worker keeps in memory; larger masks go to a file
_NOTHING = SharedInputs()
TRAIN, EXPLAIN = 3, 2  # cost of a training step, and of a forward and backward pass to the image, in forward passes


class Work(NamedTuple):
    """Counted work of runs."""

    trainings: int  # number of networks trained from scratch, including explained networks
    references: int  # number of explained networks that are trained
    scorings: int  # number of runs that score an explained network or a common network without training
    images_decoded: int  # images of both splits; 0 if they are decoded already
    images_reference: float  # training images of explained networks, times epochs
    # training images of other networks, times epochs. Images that tune common networks have full size, so each counts
    # as its size divided by the recipe's mean size
    images_retrained: float
    images_scored: int  # test images summed over all runs, and each ranked image once for the reference's prediction
    images_explained: int  # images times forward passes of explained networks
    copies_drawn: int  # noisy copies of images; all references share their random numbers
    images_submitted: int  # images times submissions; a blurred twin shares its parent's maps
    images_ranked: int  # images times rankings
    images_filled: int  # images over all runs whose fill values depend on the kept features
    disk: int  # final bytes of decoded images, rankings and results
    sealing: int  # additional bytes while a worker joins the parts of a ranking
    # additional bytes while a worker trains or scores with masks in a file because the masks exceed its memory
    extracted: int
    memory: int  # bytes per worker, without memory-mapped images and rankings
    images: int  # bytes of the decoded images; all workers share the mapped pages
    planes: int  # bytes of the largest ranking, both splits; workers share the mapped pages
    train: int  # number of training images
    jobs: int  # number of jobs; each job adds `rates.JOB_OVERHEAD`

    @property
    def images_trained(self) -> float:
        """Return the number of training images times epochs, summed over all training runs."""
        return self.images_reference + self.images_retrained

    def count_disk_bytes(self, workers: int) -> int:
        """Return the bytes of all files on the disk while each of so many workers has its masks in a file."""
        return self.disk + min(workers, self.trainings + self.scorings) * self.extracted


def count_work(
    suite: SuiteSpec, points: Collection[PlannedRun], limit: int | None = None, existing: SharedInputs = _NOTHING
) -> Work:
    """Count the work of the runs at these points; shared inputs in `existing` need no work."""
    record = suite.dataset_record
    check_image_limit(record, limit)
    train, test = (min(limit or n, n) for n in (record.train_images, record.test_images))
    counts = {Split.TRAIN: train, Split.TEST: test}
    own = sum(point.cell.retrain.trains_per_run for point in points)
    needed = list_shared_inputs(suite, points)
    missing = SharedInputs(*map(operator.sub, needed, existing))
    retrained, recipe = own + len(missing.common), suite.recipe_record
    rankings = {split: {row for row in missing.rankings if row.split is split} for split in Split}
    parts = [(counts[split], *_split_off_submissions_by_network(suite, rows)) for split, rows in rankings.items()]
    layouts = {unit: Layout(record.shape, unit, list_stored_levels(suite)) for unit in Unit}
    plane_bytes = {unit: layout.planes * layout.bytes_per_plane for unit, layout in layouts.items()}
    sizes = {row: counts[row.split] * plane_bytes[row.unit] for row in needed.rankings}
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
        images_reference=reference * find_epochs_per_reference(suite) * train,
        images_retrained=(retrained * recipe.epochs + len(missing.tuned) * express_fine_tuning_in_epochs(recipe))
        * train,
        images_scored=len(points) * test + reference * sum(counts[split] for split in list_ranked_splits(suite)),
        images_explained=sum(
            n * count_passes(shared, prod(record.shape)).forward
            for n, shared_sets, _ in parts
            for shared in shared_sets
        ),
        copies_drawn=sum(n * count_noisy_copies(chain(*explained)) for n, explained, _ in parts),
        images_submitted=sum(
            n * len({estimator.job_group for estimator in theirs}) for n, _, submitted in parts for theirs in submitted
        ),
        images_ranked=sum(counts[split] * len(rows) for split, rows in rankings.items()),
        images_filled=sum(count_images_with_computed_fill(point.cell, train, test) for point in points),
        disk=pixels + sum(made) + len(points) * test // 8,
        sealing=_JOINED * max(made, default=0),
        extracted=_count_mask_file_bytes(suite, points, train, test),
        memory=_count_memory_bytes(
            suite, train, max(sum(map(len, chain(*groups))) for _, *groups in parts), trains=trainings > 0
        ),
        images=pixels,
        train=train,
        planes=max((sum(sizes.get(row._replace(split=split), 0) for split in Split) for row in sizes), default=0),
        jobs=_count_jobs(suite, points, missing),
    )


def _count_jobs(suite: SuiteSpec, points: Collection[PlannedRun], missing: SharedInputs) -> int:
    """Count the jobs for a small data set; for a large one, rankings and scorings are divided into more jobs."""
    ranked = {(row.estimator.job_group, row.split) for row in missing.rankings}
    joined = {(row.estimator, row.unit, row.reference) for row in missing.rankings}
    scored = {make_job_grouping_key(suite, point.cell, point.seed) for point in points}
    return sum(map(len, (missing.references, missing.common, missing.tuned, ranked, joined, scored)))


def make_job_grouping_key(suite: SuiteSpec, cell: Cell, seed: int) -> tuple[Cell, int]:
    """Return a key that runs share if one job may do them: runs without training that use the same map."""
    if cell.retrain.trains_per_run:
        return cell, seed
    siblings = cell.retrain is ScoredNetwork.SIBLINGS
    return replace(cell, t=0.0), suite.find_explained_number(cell, seed) if siblings else seed


def count_images_with_computed_fill(cell: Cell, train_images: int, test_images: int) -> int:
    """Return how many images a run fills with values that are computed from kept features."""
    if cell.fill in PLAIN_FILLS:
        return 0
    return train_images + test_images if cell.retrain.trains else test_images


def count_noisy_copies(estimators: Iterable[Estimator]) -> int:
    """Return how many noisy copies of an image these estimators need, for any number of explained networks."""
    noisy = [e for e in estimators if e.uses_shared_pass and e.form in NOISY]
    samples = {
        group: [int(e.get_value("samples")) for e in noisy if e.job_group == group]
        for group in (estimator.job_group for estimator in noisy)
    }
    return sum(map(max, samples.values()))


def build_suite_network(suite: SuiteSpec, generator: torch.Generator, number: int | None = None) -> nn.Module:
    """Build the suite's network, or the explained network with this number, with random weights."""
    record = suite.dataset_record
    model, source = (suite.model, suite.network_source) if number is None else suite.find_architecture(number)
    return build_network(model, record.classes, record.channels, record.size, generator, source)


def count_cost_per_image(suite: SuiteSpec) -> NetworkCost:
    """Return the cost of passing one image through the suite's network."""
    record = suite.dataset_record
    return count_network_cost(suite.model, record.classes, record.channels, record.size, suite.network_source)


def choose_cpu_explanation_batch_size(suite: SuiteSpec) -> int:
    """Return the number of images that a CPU explains at once; large networks from users' files get fewer images."""
    if suite.model in MODELS:  # maps of these networks are published, so their batches stay the same
        return IMAGES_PER_PASS
    return max(1, min(IMAGES_PER_PASS, _PUT_OUT // (_FLOAT * count_cost_per_image(suite).activations)))


def compute_micro_batch_size(recipe: Recipe, train_images: int) -> int:
    """Return how many images pass through a network at once in training."""
    return min(recipe.micro_batch or recipe.batch, train_images)


def _count_memory_bytes(suite: SuiteSpec, train_images: int, rankings_per_pass: int, trains: bool) -> int:
    """Return the maximum of the bytes needed to train with one level's masks and to explain one batch of images."""
    cost, record, recipe = count_cost_per_image(suite), suite.dataset_record, suite.recipe_record
    features = record.channels * record.size**2
    step = compute_micro_batch_size(recipe, train_images) * (cost.activations + features) + _COPIES * cost.parameters
    explained = min(choose_cpu_explanation_batch_size(suite), train_images)
    maps = explained * (cost.activations + rankings_per_pass * features) + cost.parameters
    bits = 0 if _needs_mask_file(suite, train_images) else train_images * features // 8
    training = step * _FLOAT + bits + _count_prepared_image_bytes(recipe, train_images, features) if trains else 0
    return max(training, maps * _FLOAT)


def _needs_mask_file(suite: SuiteSpec, train_images: int) -> bool:
    """Return whether the removed bits of all training images are too large for a worker's memory."""
    return train_images * prod(suite.dataset_record.shape) // 8 >= _HELD


def _count_mask_file_bytes(suite: SuiteSpec, points: Iterable[PlannedRun], train_images: int, test_images: int) -> int:
    """Return the bytes of masks in a file of one run: of training images if a run trains, else of test images."""
    networks = {point.cell.retrain for point in points if point.cell.estimator != CLEAN}
    if not networks or not _needs_mask_file(suite, train_images):
        return 0
    return (train_images if ScoredNetwork.IMAGES in networks else test_images) * prod(suite.dataset_record.shape) // 8


def _count_prepared_image_bytes(recipe: Recipe, train_images: int, features: int) -> int:
    """Return the bytes of training images that a CPU prepares once for all epochs."""
    is_kept = (
        recipe.augmentation in normalised_inputs.PIXEL_MOVING
        and train_images * features * _FLOAT <= normalised_inputs.MAX_CACHE_BYTES
    )
    return round(train_images * features * _KEPT) if is_kept else 0


def _split_off_submissions_by_network(
    suite: SuiteSpec, rankings: Iterable[RankedSplit]
) -> tuple[list[set[Estimator]], list[set[Estimator]]]:
    """Return two lists with a set for each explained network: sets of other estimators, and sets of submissions."""
    by_network = [{row.estimator for row in rankings if row.reference == number} for number in range(suite.references)]
    submitted = [{estimator for estimator in estimators if estimator.submitted} for estimators in by_network]
    return [estimators - theirs for estimators, theirs in zip(by_network, submitted, strict=True)], submitted


def count_operations(work: Work, flops: int, relative_area: float) -> float:
    """Return the operations of all passes through networks.

    A forward pass of one image of full size takes `flops`; `relative_area` is the mean area of training images,
    relative to full size.
    """
    scored, explained = work.images_scored, work.images_explained
    return flops * (TRAIN * relative_area * work.images_trained + scored + EXPLAIN * explained)
