"""Count the work that runs need, the missing work of a suite, and its workers, without timing and opening data."""

import operator
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod
from typing import NamedTuple

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.device_settings import list_gpu_ids
from roarbench.common.enums import ScoredNetwork, Split, Unit
from roarbench.common.errors import CallerError
from roarbench.compute import training_batches
from roarbench.compute.augment import SHIFT
from roarbench.compute.builtin_network_table import MODELS
from roarbench.compute.fills import PLAIN_FILLS
from roarbench.compute.networks import NetworkCost, count_network_cost
from roarbench.compute.ranking import Layout
from roarbench.compute.recipe import Recipe
from roarbench.datasets.select_images import check_image_limit
from roarbench.estimators.catalogue import count_passes
from roarbench.estimators.compute_maps import IMAGES_PER_PASS
from roarbench.estimators.estimator import NOISY
from roarbench.plan.cells_and_runs import CLEAN, Cell, Run, hash_fine_tuned_network
from roarbench.plan.planned_runs import (
    PlannedCommonNetwork,
    PlannedRun,
    RankedSplit,
    SharedInputs,
    count_reference_epochs,
    list_planned_runs,
    list_ranked_splits,
    list_shared_inputs,
    list_stored_levels,
    make_common_network_spec,
    make_reference_spec,
)
from roarbench.plan.recipes import make_fine_tuning_recipe
from roarbench.plan.suite import SuiteSpec
from roarbench.store.networks import StoredNetwork, StoredReference
from roarbench.store.published_networks import find_imported_or_packaged_network
from roarbench.store.ranking_files import MANIFEST, load_rankings_checksum, make_ranking_spec
from roarbench.store.rankings import RankingsStore
from roarbench.store.run_result import count_cores
from roarbench.store.workspace import Workspace
from roarbench.submissions.run_in_sandbox import count_sandboxes

_MAX_ACTIVATIONS = 2**28  # numbers, in float32 1 GiB, of a user's network, summed over the images of a batch
_FLOAT_BYTES = 4  # bytes of a float32 number
_SEALING_COPIES = 2  # `RankingsStore.join_parts_and_finish` makes two copies of a split besides the parts
_ROW_BYTES = 2000  # bytes of a stored result besides its bits; 45,893 published results have 2,047 each in SQLite
_PER_WEIGHT = 3  # numbers in memory per weight: the weight, its gradient, its momentum
# bytes per number of a prepared image: bfloat16, with mirrored edges around the image
_PREPARED_BYTES = 2 * (1 + 2 / SHIFT) ** 2
SHARD = 512  # maximum images of a ranking job; on a GPU, small images pass through a network together
_MAX_MASK_BYTES = 8e9  # maximum bytes of masks that a worker keeps in memory; larger masks go to a file
# maximum workers per core; a worker computes on one thread, so more are not faster and need more memory
MOST_PER_CORE = 4
# default workers per GPU for images up to `SMALL` pixels per side: 8 trained 7 to 8 times as fast as one (docs/gpu.md);
# each worker is assumed to need about 0.5 GB of the GPU
_PER_GPU = 8
SMALL = 64  # with images of at most so many pixels per side, one process leaves a GPU idle between kernels
_NO_INPUTS = SharedInputs()
TRAIN, EXPLAIN = 3, 2  # cost of a training step, and of a forward and backward pass to the image, in forward passes


class WorkCounts(NamedTuple):
    """Counted work of runs."""

    trainings: int  # number of networks trained from scratch, including explained networks
    references: int  # number of explained networks that are trained
    scorings: int  # number of runs that score an explained network or a common network without training
    images_decoded: int  # images of both splits; 0 if they are decoded already
    images_reference: float  # training images of explained networks, times epochs
    # training images of other networks, times epochs. An image that tunes a common network has full size, so it counts
    # as often as the recipe's mean size fits into the full size
    images_retrained: float
    # test images summed over all runs, and each ranked image once for the prediction of each explained network
    images_scored: int
    images_explained: int  # images times forward passes of explained networks
    copies_drawn: int  # noisy copies of images; all explained networks share the noise
    images_submitted: int  # images times submissions; a blurred twin shares its parent's maps
    sandboxes: int  # number of sandboxes that explain these images
    images_ranked: int  # images times rankings
    images_filled: int  # images, summed over runs, whose fill values depend on the kept features
    # the remaining fields are 0 for a single step, but for `jobs`
    disk: int  # final bytes of decoded images, rankings and results
    sealing: int  # additional bytes while a worker joins the parts of a ranking
    # additional bytes of the file with the masks of one worker's run; 0 if the masks fit in memory
    extracted: int
    memory: int  # bytes per worker, without memory-mapped images and rankings
    images: int  # bytes of the decoded images; all workers share the mapped pages
    planes: int  # bytes of the largest ranking, both splits; workers share the mapped pages
    train: int  # number of training images
    jobs: int  # number of jobs; each job adds `forecast.JOB_OVERHEAD`

    @property
    def images_trained(self) -> float:
        """Return the number of training images times epochs, summed over all training runs."""
        return self.images_reference + self.images_retrained

    def count_disk_bytes(self, workers: int) -> int:
        """Return the largest number of bytes on the disk: these workers join rankings, or have their masks in files."""
        extracting = min(workers, self.trainings + self.scorings) * self.extracted
        return self.disk + max(extracting, workers * self.sealing)


def count_work(
    suite: SuiteSpec,
    points: Collection[PlannedRun | Run],
    limit: int | None = None,
    existing: SharedInputs = _NO_INPUTS,
    needed: SharedInputs | None = None,
) -> WorkCounts:
    """Count the work of planned runs; the shared inputs in `existing` need no work, and `needed` has all if listed."""
    record, features = suite.dataset_record, prod(suite.dataset_record.shape)
    check_image_limit(record, limit)
    counts = {split: min(limit or n, n) for split, n in record.image_counts.items()}
    needed = needed or list_shared_inputs(suite, points)
    missing = SharedInputs(*map(operator.sub, needed, existing))
    layouts = {unit: Layout(record.shape, unit, list_stored_levels(suite)) for unit in Unit}
    plane_bytes = {unit: layout.planes * layout.bytes_per_plane for unit, layout in layouts.items()}
    sizes = {row: counts[row.split] * plane_bytes[row.unit] for row in needed.rankings}
    made = [sizes[row] for row in missing.rankings]
    images = sum(counts[split] for split in record.decoded_splits) if points else 0
    train, test = counts[Split.TRAIN], counts[Split.TEST]
    # one pass makes an estimator's maps for all units of features
    maps = {(row.split, row.estimator, row.reference) for row in missing.rankings}
    rankings_per_pass = max(sum(split is each for each, *_ in maps) for split in Split)
    work = count_computation(suite, points, missing, counts)
    mask_bytes, extracted = train * features // 8, 0  # of one level
    networks = {point.cell.retrain for point in points if point.cell.estimator != CLEAN}
    if mask_bytes >= _MAX_MASK_BYTES:
        masked = train if ScoredNetwork.IMAGES in networks else test * bool(networks)
        mask_bytes, extracted = 0, masked * features // 8
    # jobs for a small data set; rankings and scorings of a large data set are divided into more jobs
    ranked = {(row.estimator.job_group, row.split) for row in missing.rankings}
    joined = {(row.estimator, row.unit, row.reference) for row in missing.rankings}
    scored = {make_job_grouping_key(suite, point.cell, point.seed) for point in points}
    return work._replace(
        images_decoded=images,
        disk=images * features + sum(made) + len(points) * (test // 8 + _ROW_BYTES),
        sealing=_SEALING_COPIES * max(made, default=0),
        extracted=extracted,
        memory=_count_memory_bytes(suite, train, rankings_per_pass, mask_bytes, trains=work.trainings > 0),
        images=images * features,
        train=train,
        planes=max((sum(sizes.get(row._replace(split=split), 0) for split in Split) for row in sizes), default=0),
        jobs=sum(map(len, (missing.references, missing.common, missing.tuned, ranked, joined, scored))),
    )


def count_computation(
    suite: SuiteSpec, points: Collection[PlannedRun | Run], missing: SharedInputs, counts: Mapping[Split, int]
) -> WorkCounts:
    """Count what the runs `points` and the missing shared inputs compute, for a suite or for one step.

    `counts` has the number of images of each split.
    """
    shape, recipe = suite.dataset_record.shape, suite.recipe_record
    train, test = counts[Split.TRAIN], counts[Split.TEST]
    own, reference = sum(point.cell.retrain.trains_per_run for point in points), len(missing.references)
    retrained = own + len(missing.common)
    trainings = retrained + (0 if suite.given else reference)
    tuning = make_fine_tuning_recipe(recipe)  # its images have full size, so each costs more than the recipe's mean
    tuning_epochs = tuning.epochs * tuning.mean_relative_image_area / recipe.mean_relative_image_area
    retraining_epochs = retrained * recipe.epochs + len(missing.tuned) * tuning_epochs
    explained, copies, submitted = 0, 0, list[int]()  # `submitted`: images of each submission and network
    for split in Split:
        n, samples = counts[split], defaultdict[str, int](int)  # noisy copies of an image, shared by a job group
        for number in range(suite.references):
            estimators = {row.estimator for row in missing.rankings if (row.split, row.reference) == (split, number)}
            theirs = {estimator for estimator in estimators if estimator.submitted}
            submitted += [n] * len({estimator.job_group for estimator in theirs})
            explained += n * count_passes(estimators - theirs, prod(shape)).forward
            for estimator in estimators - theirs:
                if estimator.uses_shared_pass and estimator.form in NOISY:
                    group = estimator.job_group
                    samples[group] = max(samples[group], int(estimator.get_value("samples")))
        copies += n * sum(samples.values())
    return WorkCounts(
        trainings=trainings,
        references=trainings - retrained,
        scorings=len(points) - own,
        images_decoded=0,
        images_reference=reference * count_reference_epochs(suite) * train,
        images_retrained=retraining_epochs * train,
        images_scored=len(points) * test + reference * sum(counts[split] for split in list_ranked_splits(suite)),
        images_explained=explained,
        copies_drawn=copies,
        images_submitted=sum(submitted),
        sandboxes=sum(count_sandboxes(n, shape) for n in submitted),
        images_ranked=sum(counts[row.split] for row in missing.rankings),
        images_filled=sum(
            test + (train if point.cell.retrain.trains else 0) for point in points if point.cell.fill not in PLAIN_FILLS
        ),
        **dict.fromkeys(("disk", "sealing", "extracted", "memory", "images", "train", "planes"), 0),
        jobs=1,
    )


def count_missing_work(
    suite_results: SuiteResults, workspace: Workspace, decode_again: bool = False
) -> tuple[WorkCounts, SharedInputs]:
    """Count the work of a suite's missing runs, and list what these runs share, missing or not.

    Decoding is counted if the store has no result on the suite's images, or with `decode_again`.
    """
    suite, data = suite_results.suite, suite_results.data
    points = [point for point in list_planned_runs(suite) if point not in suite_results.results]
    needed = list_shared_inputs(suite, points)
    existing = find_existing_shared_inputs(workspace, suite, data, needed)
    work = count_work(suite, points, suite_results.limit, existing, needed)
    return work._replace(images_decoded=0) if data and not decode_again else work, needed


def find_existing_shared_inputs(
    workspace: Workspace, suite: SuiteSpec, data: str, needed: SharedInputs
) -> SharedInputs:
    """Return the needed inputs that a workspace has, for images with the fingerprint `data`."""
    rankings, shape = RankingsStore(workspace.rankings), suite.dataset_record.shape

    def is_trained(number: int) -> bool:
        reference = make_reference_spec(suite, data, number)
        is_stored = StoredReference(workspace.references, reference).has_weights()
        return is_stored or find_imported_or_packaged_network(workspace, reference) is not None

    def has_network(common: PlannedCommonNetwork, *ranked_by: str) -> bool:
        key = make_common_network_spec(suite, data, *common).key
        key = hash_fine_tuned_network(key, *ranked_by) if ranked_by else key
        return StoredNetwork(workspace.networks, key).has_weights()

    ranked = dict[RankedSplit, str]()
    for row in needed.rankings:
        spec = make_ranking_spec(suite, data, shape, row.estimator, row.unit, row.reference)
        if checksum := load_rankings_checksum(rankings.get_folder(spec) / MANIFEST):
            ranked[row] = checksum
    return SharedInputs(
        {number for number in needed.references if is_trained(number)},
        ranked.keys(),
        {common for common in needed.common if has_network(common)},
        {(common, row) for common, row in needed.tuned if row in ranked and has_network(common, ranked[row])},
    )


def make_job_grouping_key(suite: SuiteSpec, cell: Cell, seed: int) -> tuple[Cell, int]:
    """Return a key that runs share if one job may do them, because they do not train and use the same map."""
    if cell.retrain.trains_per_run:
        return cell, seed
    siblings = cell.retrain is ScoredNetwork.SIBLINGS
    return replace(cell, t=0.0), suite.find_explained_number(cell, seed) if siblings else seed


def count_cost_per_image(suite: SuiteSpec) -> NetworkCost:
    return count_network_cost(*suite.find_network())


def choose_cpu_explanation_batch_size(suite: SuiteSpec) -> int:
    """Return the number of images that a CPU explains at once; large networks from users' files get fewer images."""
    if suite.model in MODELS:  # maps of these networks are published, so their batches stay the same
        return IMAGES_PER_PASS
    return max(1, min(IMAGES_PER_PASS, _MAX_ACTIVATIONS // count_cost_per_image(suite).activations))


def compute_micro_batch_size(recipe: Recipe, train_images: int) -> int:
    """Return how many images pass through a network at once in training."""
    return min(recipe.micro_batch or recipe.batch, train_images)


def _count_memory_bytes(
    suite: SuiteSpec, train_images: int, rankings_per_pass: int, mask_bytes: int, trains: bool
) -> int:
    """Return the bytes to train with one level's masks or to explain one batch of images, whichever needs more."""
    cost, recipe, features = count_cost_per_image(suite), suite.recipe_record, prod(suite.dataset_record.shape)
    batch = compute_micro_batch_size(recipe, train_images)
    step = batch * (cost.activations + features) + _PER_WEIGHT * cost.parameters
    explained = min(choose_cpu_explanation_batch_size(suite), train_images)
    maps = explained * (cost.activations + rankings_per_pass * features) + cost.parameters
    numbers = train_images * features
    moves = recipe.augmentation in training_batches.PIXEL_MOVING
    is_prepared_once = moves and numbers * _FLOAT_BYTES <= training_batches.MAX_CACHE_BYTES  # for all epochs
    prepared = round(numbers * _PREPARED_BYTES) if is_prepared_once else 0
    return max(step * _FLOAT_BYTES + mask_bytes + prepared if trains else 0, maps * _FLOAT_BYTES)


def choose_worker_count(requested: int | None, image_side: int | None = None) -> int:
    """Return the requested number of workers; by default one per core, or per GPU and several for small images.

    Raises:
        CallerError: The request is below 1 or too large.
    """
    if requested is not None:
        most = MOST_PER_CORE * count_cores()
        if not 1 <= requested <= most:
            raise CallerError(f"--workers is {requested}, expected 1 to {most}, at most {MOST_PER_CORE} per core")
        return requested
    gpus = len(list_gpu_ids())
    if not gpus:
        return count_cores()
    per_gpu = _PER_GPU if image_side and image_side <= SMALL else 1
    return gpus * max(1, min(per_gpu, count_cores() // gpus))
