"""Train references, and train or score networks for runs, as jobs of a worker.

Each job reads its inputs from the store's folder, and writes its output to this folder or returns the output, so any
worker can do any job, and an interrupted job is simply done again.
"""

import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from roarbench.common.device_settings import choose_device, choose_precision, list_gpu_libraries, name_device
from roarbench.common.enums import MATCHED_IMAGE, OTHER_IMAGE, Precision, ScoredNetwork, Split
from roarbench.common.errors import CallerError, StoreError
from roarbench.compute.bit_planes import find_removed_bits
from roarbench.compute.degrade import RandomlyDegradedImages, RemovalMasks
from roarbench.compute.images_with_exchanged_masks import RankingMask
from roarbench.compute.mask_smoothness import compute_smoothness
from roarbench.compute.normalised_inputs import Inputs, Normalisation
from roarbench.compute.prediction import (
    NormalisedNetwork,
    choose_scoring_batch_size,
    predict_logits,
    predict_logits_of_networks,
)
from roarbench.compute.train import fit
from roarbench.datasets.open_decoded import ImageData
from roarbench.estimators.estimator import SEED
from roarbench.estimators.randomness import pair_images
from roarbench.execution.common_network_training import load_stored_common_network, make_images_with_exchanged_masks
from roarbench.execution.device_inputs import (
    get_device_mean,
    get_device_or_mapped_pixels,
    load_packed_masks,
    make_degraded_inputs,
    make_packed_other_image_masks,
    make_untouched_inputs,
    remove_features,
    stream_unless_on_device,
)
from roarbench.execution.importance import make_image_ids
from roarbench.execution.job_context import JobContext, ReferenceModel
from roarbench.execution.pretrained_weights import load_given_weights
from roarbench.plan.cells_and_runs import CLEAN, Run
from roarbench.plan.fill_names import refuse_unusable_fill
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import find_explained_and_scored_network
from roarbench.store.networks import CheckpointFile, Predictions
from roarbench.store.rankings import Rankings
from roarbench.store.run_result import RunResult, pack_correctness, pack_probabilities
from roarbench.store.software_and_hardware import Provenance, read_provenance
from roarbench.store.submissions_and_annotations import AnnotationKind

_REDRAWN = {Split.TRAIN: 2000, Split.TEST: 3000}  # seeds of `random-redrawn`, distinct from the seeds of training runs
_NETWORKS = 8  # maximum explained networks that stay in a process's memory
HASHED = 2  # stored bytes of an image's mask hash


class ScoredRuns(NamedTuple):
    """Results of the runs of one job."""

    results: Sequence[RunResult]
    note: str = ""  # message about the job; empty if there is none
    # hashes of the masks of runs that score a reference under its own maps (`AnnotationKind.MASKS`); stored with the
    # results. The default is never changed; a read-only view could not be sent between processes
    annotations: Mapping[str, str] = {}


def train_or_read_reference(explained: ReferenceModel) -> str:
    """Train an explained network, or read its given weights, and store it with its predictions; return a message."""
    store, note = explained.store, ""
    with store.lock():
        if not store.has_weights():
            note = _train_or_read_weights(explained)
        for split in explained.ranked_splits:
            if not store.has_predictions(split):
                store.save_predictions(split, _compute_predictions(explained, split))
    return note


def _train_or_read_weights(explained: ReferenceModel) -> str:
    """Train an explained network, or read its given weights, and store it; return a message about its checkpoint."""
    start, work, reference, norm = time.perf_counter(), explained.work, explained.reference, None
    checkpoint, images = work.get_checkpoint(reference.key), work.images
    if reference.given:
        model = explained.build_untrained_network(reference.seed).to(choose_device())
        norm = load_given_weights(work.given[explained.number], model, images.record.channels, reference.model)
    else:
        recipe = find_recipe(reference.recipe)
        model = work.build_starting_network(recipe, reference.seed).to(choose_device())
        inputs, labels = make_untouched_inputs(images, Split.TRAIN), torch.from_numpy(images.train.labels)
        fit(model, inputs, labels, Normalisation.of(images), recipe, reference.seed, checkpoint)
    explained.store.save_trained(model, time.perf_counter() - start, norm)
    checkpoint.remove()
    return checkpoint.note


def _compute_predictions(explained: ReferenceModel, split: Split) -> Predictions:
    images = explained.work.images
    model, batch = explained.load_trained().to(choose_device()), choose_scoring_batch_size(images.record.size)
    largest = predict_logits(model, make_untouched_inputs(images, split), explained.norm, batch).softmax(1).max(1)
    return Predictions(largest.indices.numpy(), largest.values.numpy())


def execute_runs(work: JobContext, runs: tuple[Run, ...]) -> ScoredRuns:
    """Do runs that score one map at several levels, or a single run."""
    parts = [execute_run(work, run) for run in runs]  # only training runs have notes, and each is a job of its own
    return ScoredRuns([result for part in parts for result in part.results], parts[0].note)


def execute_run(work: JobContext, run: Run) -> ScoredRuns:
    """Do one run: train a network, or load the common or the explained network, and test it."""
    refuse_unusable_fill(run.cell.fill, run.cell.retrain)
    images, spec = work.images, work.make_ranking_spec_of_run(run)
    rankings = exchange_rankings_if_twin(images, run, work.rankings.open(spec)) if spec else None
    # the check raises before hours of work on rankings that were made with other weights
    weights = find_explained_weights_checksum(work, run, rankings)
    checkpoint, start = work.get_checkpoint(run.key, rankings.checksum if rankings else ""), time.perf_counter()
    model, norm, loss = _train_or_load_scored_network(work, run, rankings, checkpoint)
    masks, batch = extract_packed_test_masks(images, run, rankings), choose_scoring_batch_size(images.record.size)
    logits = predict_logits(model, make_test_inputs(images, run, rankings, masks), norm, batch)
    correct, seconds = logits.argmax(1).numpy() == images.test.labels, time.perf_counter() - start
    result = _make_result(run, correct, seconds, rankings, weights, _compute_smoothness(images, run, masks), loss)
    if run.cell.retrain is ScoredNetwork.NONE:
        targets = torch.from_numpy(work.find_scored_network(run).store.load_predictions(Split.TEST).targets)
        probabilities = logits.softmax(1).gather(1, targets[:, None])[:, 0]
        result = replace(result, probability=pack_probabilities(probabilities.numpy()))
    return ScoredRuns([result], checkpoint.note)


def _compute_smoothness(images: ImageData, run: Run, masks: NDArray[np.uint8] | None) -> float | None:
    return None if masks is None else compute_smoothness(masks, images.record.shape, run.cell.unit)


def _make_result(
    run: Run,
    correct: NDArray[np.bool_],
    seconds: float,
    rankings: Rankings | None,
    weights: str,
    smoothness: float | None,
    loss: float | None = None,
) -> RunResult:
    return RunResult(
        run=run,
        correct=int(correct.sum()),
        total=len(correct),
        bits=pack_correctness(correct),
        seconds=seconds,
        provenance=read_run_provenance(run),
        rankings=rankings.checksum if rankings else "",
        smoothness=smoothness,
        weights=weights,
        loss=loss,
    )


def _train_or_load_scored_network(
    work: JobContext, run: Run, rankings: Rankings | None, checkpoint: CheckpointFile
) -> tuple[nn.Module, Normalisation, float | None]:
    """Return the scored network, the normalisation of its inputs, and the training loss (None if it is not trained)."""
    if run.cell.retrain is ScoredNetwork.NONE:
        scored = work.find_scored_network(run)
        return *_load_explained_network_for_scoring(scored, scored.store.read_checksum()), None
    images = work.images
    norm = Normalisation.of(images)
    if run.cell.retrain is ScoredNetwork.MASKS:  # masks with a fraction t of ones
        t, channels = run.cell.t, images.record.channels
        norm = Normalisation((t,) * channels, ((t * (1 - t)) ** 0.5,) * channels)
    if run.cell.retrain is ScoredNetwork.COMMON:
        return load_stored_common_network(work, run, rankings), norm, None
    model = work.build_starting_network(run.recipe_record, run.seed).to(choose_device())
    inputs, labels = _make_run_inputs(images, run, rankings, Split.TRAIN), torch.from_numpy(images.train.labels)
    return model, norm, fit(model, inputs, labels, norm, run.recipe_record, run.seed, checkpoint)


def read_run_provenance(run: Run) -> Provenance:
    """Return the provenance of a run in this process; scoring is always in float32."""
    precision = run.recipe_record.precision if run.cell.retrain.trains else Precision.FLOAT32
    return read_provenance(
        name_device(choose_device()), choose_precision(precision, choose_device()), list_gpu_libraries(choose_device())
    )


def find_explained_weights_checksum(work: JobContext, run: Run, rankings: Rankings | None) -> str:
    """Return the checksum of the explained weights that a run depends on; refuse rankings made from other weights."""
    store = work.find_explained_network(run).store
    weights = rankings.weights if rankings else ""
    here = store.read_checksum()
    if rankings and weights and here and weights != here:
        mismatch = f"{rankings.folder} was made for a different network than that in {store.folder}"
        raise StoreError(f"{mismatch}; delete {rankings.folder.parent}, or use a new --store")
    return weights if run.cell.retrain.trains else here


def _make_run_inputs(images: ImageData, run: Run, rankings: Rankings | None, split: Split) -> Inputs:
    cell = run.cell
    if cell.estimator == CLEAN:
        return make_untouched_inputs(images, split)
    if rankings is None:
        if cell.fill != "mean":
            seen = (
                f"fill '{cell.fill}' is computed once per image, but {cell.estimator} changes its masks in every epoch"
            )
            raise CallerError(f"{seen}; use fill 'mean'")
        generator = torch.Generator().manual_seed(_REDRAWN[split] + run.seed)
        pixels, mean = get_device_or_mapped_pixels(images, split), get_device_mean(images)
        redrawn = RandomlyDegradedImages(pixels, cell.t, mean, cell.unit, generator)
        return stream_unless_on_device(redrawn, images, split)
    if cell.retrain is ScoredNetwork.EXCHANGED and split is Split.TRAIN:
        mask = RankingMask(rankings.splits[split], rankings.layout, cell.t, cell.order)
        return make_images_with_exchanged_masks(images, [mask], cell.unit, run.seed, cell.fill)
    if cell.retrain is ScoredNetwork.MASKS:
        return RemovalMasks(rankings.layout.shape, load_packed_masks(images, rankings, split, cell), cell.unit)
    return make_degraded_inputs(images, split, rankings, cell)


def make_test_inputs(images: ImageData, run: Run, rankings: Rankings | None, masks: NDArray[np.uint8] | None) -> Inputs:
    """Return the test inputs of a run; `masks` come from `extract_packed_test_masks` and serve matched twins only."""
    if masks is not None and _find_twin_kind(run) == MATCHED_IMAGE:
        return remove_features(images, Split.TEST, masks, run.cell)
    return _make_run_inputs(images, run, rankings, Split.TEST)


def exchange_rankings_if_twin(images: ImageData, run: Run, rankings: Rankings) -> Rankings:
    """Return the rankings by which a run removes features; the twin `other-image` exchanges them between images."""
    if _find_twin_kind(run) != OTHER_IMAGE:
        return rankings
    # a common network is already trained and tests are cheap, so each seed has a pairing of images of its own
    is_shared = run.cell.retrain is ScoredNetwork.COMMON
    seed, splits = (run.seed, (Split.TEST,)) if is_shared else (SEED, tuple(rankings.splits))
    exchanged = {split: rankings.splits[split][_draw_other_image_indices(images, split, seed)] for split in splits}
    return replace(rankings, splits=exchanged)


def _find_twin_kind(run: Run) -> str:
    """Return the twin's kind if a run's estimator is a twin; empty for other estimators and for untouched images."""
    estimator = run.cell.estimator_record
    return estimator.twin if estimator else ""


def extract_packed_test_masks(images: ImageData, run: Run, rankings: Rankings | None) -> NDArray[np.uint8] | None:
    """Return the packed masks of the test images, uint8 (n, width); return None if `rankings` is None."""
    if rankings is None:
        return None
    masks = find_removed_bits(rankings.splits[Split.TEST], run.cell.t, run.cell.order, rankings.layout)
    if _find_twin_kind(run) != MATCHED_IMAGE:
        return masks
    paired_images = _draw_other_image_indices(images, Split.TEST, run.seed)
    return make_packed_other_image_masks(images, run, rankings, masks, paired_images)


def _draw_other_image_indices(images: ImageData, split: Split, seed: int) -> NDArray[np.int64]:
    """Return, for each image of a split, the number of the other image whose map is used for it, int64 (n,)."""
    return pair_images(len(images[split].labels), int(make_image_ids(split, 0, 1)), seed)


def score_networks_on_maps_of_one_network(work: JobContext, runs: tuple[Run, ...]) -> ScoredRuns:
    """Score several explained networks at some levels, on images degraded by one estimator's maps of one network.

    A prediction counts as correct if the scored network predicts the class that the maps explain; this class is the
    explained network's prediction on the untouched image. Images are degraded once for all networks.
    """
    first, spec, images = runs[0], work.make_ranking_spec_of_run(runs[0]), work.images
    refuse_unusable_fill(first.cell.fill, first.cell.retrain)
    rankings = exchange_rankings_if_twin(images, first, work.rankings.open(spec)) if spec else None
    weights, explained = find_explained_weights_checksum(work, first, rankings), work.find_explained_network(first)
    networks = {
        network: _load_explained_network_for_scoring(network, network.store.read_checksum())
        for network in map(work.find_scored_network, runs)
    }
    results, annotations = list[RunResult](), dict[str, str]()
    get_level = attrgetter("cell.t")
    for _, level_runs in groupby(sorted(runs, key=get_level), key=get_level):
        start, level = time.perf_counter(), tuple(level_runs)
        masks = extract_packed_test_masks(images, level[0], rankings)
        smoothness = _compute_smoothness(images, first, masks)
        targets = explained.store.load_predictions(Split.TEST).targets
        unchanged = _predict_test_classes(work, level, rankings, masks, networks) == targets
        seconds = (time.perf_counter() - start) / len(level)
        for run, is_unchanged in zip(level, unchanged, strict=True):
            results.append(_make_result(run, is_unchanged, seconds, rankings, weights, smoothness))
            own, scored = find_explained_and_scored_network(run.seed)
            if masks is not None and own == scored:
                annotations[f"{AnnotationKind.MASKS} {run.key}"] = hash_each_mask(masks)
    return ScoredRuns(results, annotations=annotations)


@lru_cache(maxsize=_NETWORKS)
def _load_explained_network_for_scoring(explained: ReferenceModel, checksum: str) -> NormalisedNetwork:
    """Load an explained network to the device; each process loads it once per checksum."""
    return NormalisedNetwork(explained.load_trained().to(choose_device()), explained.norm)


def _predict_test_classes(
    work: JobContext,
    runs: Sequence[Run],
    rankings: Rankings | None,
    masks: NDArray[np.uint8] | None,
    networks: Mapping[ReferenceModel, NormalisedNetwork],
) -> NDArray[np.int64]:
    """Return the predicted classes of runs at one level for the test images, int64 (runs, n)."""
    scored = [work.find_scored_network(run) for run in runs]
    if runs[0].cell.estimator == CLEAN:  # predictions on untouched images are stored
        return np.stack([network.store.load_predictions(Split.TEST).targets for network in scored])
    inputs, models = make_test_inputs(work.images, runs[0], rankings, masks), [networks[network] for network in scored]
    logits = predict_logits_of_networks(models, inputs, choose_scoring_batch_size(work.images.record.size))
    return np.stack([network_logits.argmax(1).numpy() for network_logits in logits])


def hash_each_mask(masks: NDArray[np.uint8]) -> str:
    """Return the first bytes of the hash of each image's packed mask, uint8 (n, width), in base 64."""
    digests = (blake2b(mask.tobytes(), digest_size=HASHED).digest() for mask in masks)
    return b64encode(b"".join(digests)).decode()
